"""Answers HEAD as GET: the server leaves the body out."""

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadMiddleware:
    """Lets every resource that takes GET take HEAD too.

    Parameters
    ----------
    app
        What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        # The server leaves the body out by the method in its own scope, so that this is another.
        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, send)
        finally:
            scope["route"] = asked.get("route")
