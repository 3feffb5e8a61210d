"""The asynchronous client: the one source, from which `_sync` is generated."""
