"""An answer of megabytes, sent in the parts that it was written in."""

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from app.api.negotiation import JSON

_LEAST_BYTES: Final = 1 << 18
"""Smaller parts are sent together: each message takes its time."""


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
        self._messages = _together(parts)
        self.headers["content-length"] = str(sum(map(len, parts)))

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        for left, part in enumerate(self._messages, 1 - len(self._messages)):
            await send({"type": "http.response.body", "body": part, "more_body": left < 0})


def _together(parts: Sequence[bytes]) -> list[bytes]:
    """Return the parts of messages that are large enough, and what is left over.

    Examples
    --------
    >>> list(map(len, _together([b"12", bytes(300_000), b"3", b"4"])))
    [300002, 2]
    """
    messages: list[bytes] = []
    small: list[bytes] = []
    size = 0
    for part in parts:
        small.append(part)
        size += len(part)
        if size >= _LEAST_BYTES:
            messages.append(b"".join(small))
            small, size = [], 0
    return [*messages, b"".join(small)] if small or not messages else messages
