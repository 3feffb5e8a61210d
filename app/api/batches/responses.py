"""A response of megabytes, built and sent in parts."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from app.api.negotiation import JSON

if TYPE_CHECKING:  # numpy is not for the start
    from app.api.batches.joined_texts import Blocks


class PartsResponse(Response):
    """JSON in several parts, each built after the one before was sent.

    The length is known in advance; the whole is never in memory.

    Parameters
    ----------
    parts
        The parts of the text.
    n_bytes
        The total length.
    """

    def __init__(self, parts: Iterable[bytes], n_bytes: int) -> None:
        super().__init__(media_type=JSON)
        self._parts = parts
        self.headers["content-length"] = str(n_bytes)

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": self.status_code}
        await send({**start, "headers": self.raw_headers})
        parts = iter(self._parts)
        part = next(parts, b"")
        for following in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            await asyncio.sleep(0)  # lets other requests run before the next part is built
            part = following
        await send({"type": "http.response.body", "body": part})


def list_response(begin: bytes, blocks: "Blocks", separator: bytes, end: bytes) -> PartsResponse:
    """Return a list in JSON.

    Parameters
    ----------
    begin, end
        The text before and after the rows.
    blocks
        The rows, at least one; each begins with the separator.
    separator
        It is left out before the first row.
    """
    n_bytes = len(begin) - len(separator) + blocks.n_bytes + len(end)
    return PartsResponse(_parts(begin, blocks.blocks, separator, end), n_bytes)


def _parts(begin: bytes, blocks: Iterator[bytes], separator: bytes, end: bytes) -> Iterator[bytes]:
    last = begin + next(blocks)[len(separator) :]
    for block in blocks:
        yield last
        last = block
    yield last + end
