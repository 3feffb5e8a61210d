"""Answers HEAD as GET: the server leaves the body out."""

from typing import Final

from anyio import CancelScope
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_END: Final[Message] = {"type": "http.response.body"}


class HeadMiddleware:
    """Lets every resource that takes GET take HEAD too.

    An answer ends with its headers where they tell no length: a stream may go on for hours, and
    nobody gets any of it.

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
        with CancelScope() as streaming:

            async def send_head(message: Message) -> None:
                if streaming.cancel_called:
                    return
                await send(message)
                if message["type"] == "http.response.start" and not _tells_length(message):
                    await send(dict(_END))
                    streaming.cancel()

            try:
                await self._app(asked, receive, send_head)
            finally:
                scope["route"] = asked.get("route")


def _tells_length(message: Message) -> bool:
    return any(name == b"content-length" for name, _ in message["headers"])
