"""An answer of megabytes, sent in the parts that it was written in."""

from collections.abc import Sequence

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from app.api.negotiation import JSON


class PartsResponse(Response):
    """JSON in several parts: the next is sent when the one before has left.

    The length is known, and no copy of the whole is made.

    Parameters
    ----------
    parts
        The text.
    """

    def __init__(self, parts: Sequence[bytes]) -> None:
        super().__init__(media_type=JSON)
        self._parts = parts
        self.headers["content-length"] = str(sum(map(len, parts)))

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for part in self._parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
