"""Answers HEAD like GET; the server omits the body."""

from typing import Final

from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_END: Final[Message] = {"type": "http.response.body"}


class HeadMiddleware:
    """Lets every resource that supports GET support HEAD.

    An answer without a content length ends after its headers: a stream might run for hours, and
    none of it would be sent.

    Parameters
    ----------
    app
        The application within.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        # A copy: the server omits the body because of the method in its own scope.
        get_scope = {**scope, "method": "GET"}
        with CancelScope() as streaming:

            async def send_head(message: Message) -> None:
                if streaming.cancel_called:
                    return
                await send(message)
                if message["type"] == "http.response.start" and not _has_content_length(message):
                    await send(dict(_END))
                    streaming.cancel()

            try:
                await self._app(get_scope, receive, send_head)
            finally:
                scope["route"] = get_scope.get("route")


def _has_content_length(message: Message) -> bool:
    return any(name == b"content-length" for name, _ in message["headers"])
