"""Names that an option asks for, held against those that a source has."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from trainfare_client.errors import TrainfareError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_NAMES = 40


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return which name may be meant, as the beginning of a remedy; nothing where none is near."""
    nearest = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {nearest[0]!r}? " if nearest else ""


class UnknownNameError(TrainfareError):
    """An option asks for something that the source does not have."""


class Asked:
    """The names of one option, and which of them were met.

    Parameters
    ----------
    flag, kind
        The option, and what it names.
    names
        What it asks for; nothing where it was not given.
    """

    def __init__(self, flag: str, kind: str, names: Iterable[str]) -> None:
        self._flag, self._kind = flag, kind
        self._unseen = {name for name in names if name}
        self._there: dict[str, None] = {}
        self._is_empty = True

    def meet(self, names: Iterable[str]) -> None:
        """Note the names of one run."""
        self._is_empty = False
        if self._unseen:
            self._there.update(dict.fromkeys(names))
            self._unseen -= self._there.keys()

    def check(self) -> None:
        """Refuse names that no run had; a source without runs is another's to refuse.

        Raises
        ------
        UnknownNameError
            If there are any; the remedy names what there is.
        """
        if self._is_empty or not self._unseen:
            return
        name = min(self._unseen)
        names = sorted(self._there)
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        shown = ", ".join(names[:_SHOWN_NAMES]) or "none"
        raise UnknownNameError(
            f"{self._flag} names the {self._kind} {name!r}, which no run has.",
            f"{nearest_hint(name, self._there)}There are: {shown}{more}.",
        )
