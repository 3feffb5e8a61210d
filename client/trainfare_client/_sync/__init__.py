"""The synchronous client, generated from `_async` by `generate_sync.py`."""
