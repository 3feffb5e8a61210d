"""The tokens by which callers ask for the next page of a list."""

from app.domain.errors import Fault, InvalidRequestError
from app.domain.identifiers import is_identifier


def identifier_of(page_token: str | None, prefix: str) -> str | None:
    """Return the identifier in a page token, None for the first page.

    Raises
    ------
    InvalidRequestError
        If it is not an identifier with the prefix.
    """
    if page_token is None or is_identifier(prefix, page_token):
        return page_token
    raise _foreign(page_token)


def number_of(page_token: str | None, *, prefix: str = "", max_digits: int) -> int | None:
    """Return the number after the prefix of a token, None for the first page.

    Raises
    ------
    InvalidRequestError
        If it is not a number of at most `max_digits` digits.
    """
    if page_token is None:
        return None
    digits = page_token.removeprefix(prefix)
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > max_digits:
        raise _foreign(page_token)
    return int(digits)


def _foreign(page_token: str) -> InvalidRequestError:
    fault = Fault(
        "The page token does not belong to this list.",
        "Send the next_page_token of the previous page, or none for the first.",
        field="page_token",
        value=page_token,
    )
    return InvalidRequestError("The page token is invalid.", [fault])
