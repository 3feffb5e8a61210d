"""Which media type a request accepts for its answer."""

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request

from app.api.middleware.exchanges import exchange_of
from app.domain.negotiation import preferred

_VARIES: Final = (b"vary", b"Accept")


def accepted_type(request: Request, offered: Sequence[str]) -> str:
    """Return the offer that a request prefers, by all lines of its `Accept` header.

    An answer that caches may keep tells them that it depends on that header.
    """
    if request.method == "GET":
        exchange_of(request.scope).extra_headers += (_VARIES,)
    return preferred(", ".join(request.headers.getlist("accept")), offered)
