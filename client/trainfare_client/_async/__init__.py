"""The asynchronous client: the source from which `_sync` is generated."""
