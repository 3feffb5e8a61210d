"""Recognises tables whose columns are not separated by commas."""

from collections.abc import Sequence

from app.domain.errors import InvalidRequestError


def refuse_other_separators(names: Sequence[str]) -> None:
    """Refuse the header of a table whose columns are not separated by commas.

    Raises
    ------
    InvalidRequestError
        If its only name contains another separator.
    """
    if len(names) == 1 and (found := next((mark for mark in ";\t|" if mark in names[0]), None)):
        raise InvalidRequestError(
            f"The columns are separated by {found!r}. Separate them by commas (and write decimals"
            " with a point)."
        )
