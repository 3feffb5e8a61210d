"""Plain ASGI layers around the routes."""
