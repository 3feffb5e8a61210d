"""Reads the `Prefer` header (RFC 7240): how long a caller is willing to wait for a result."""

import re
from typing import Annotated, Final

from fastapi import Depends, Header, Request

from app.domain import deadlines

MAX_WAIT_S: Final = 60
_WAIT: Final = re.compile(
    r"(?:^|[,;])\s*wait\s*=\s*\"?0*(\d+)\"?\s*(?=$|[,;])", re.IGNORECASE | re.ASCII
)
_READ_DIGITS: Final = 9
"""A number of so many digits exceeds the longest wait, whatever follows them."""


async def _wait_s(
    request: Request,
    _prefer: Annotated[
        str | None,
        Header(
            alias="prefer",
            description=f"`wait=N` waits up to N seconds (at most {MAX_WAIT_S}) for the result",
            max_length=500,
        ),
    ] = None,
) -> int | None:
    # All lines of the header; the parameter, which describes it, is only the first.
    match = _WAIT.search(",".join(request.headers.getlist("prefer")))
    if match is None:
        return None
    wait_s = min(int(match[1][:_READ_DIGITS]), MAX_WAIT_S)
    if deadline := deadlines.current.get():
        deadline.extend(wait_s)
    return wait_s


WaitPreference = Annotated[int | None, Depends(_wait_s)]


def applied(wait_s: int) -> dict[str, str]:
    """Return the header that says which preference was honoured."""
    return {"Preference-Applied": f"wait={wait_s}"}
