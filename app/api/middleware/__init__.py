"""The ASGI middleware around the routes."""
