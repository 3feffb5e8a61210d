"""Compares names that an option asks for with those that a source has."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from trainfare_client.errors import TrainfareError

if TYPE_CHECKING:
    from collections.abc import Iterable

_SHOWN_NAMES = 40


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return which name may be meant, as the start of a remedy; empty if none is similar."""
    nearest = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {nearest[0]!r}? " if nearest else ""


class OptionError(TrainfareError):
    """An option of the command line is wrong, by itself or for this source."""


class UnknownNameError(OptionError):
    """An option asks for something that the source does not have."""


class RequestedNames:
    """The names of one option, and which of them were found.

    Parameters
    ----------
    flag, kind
        The option, and what its values name.
    names
        The values of the option; empty if it was not given.
    """

    def __init__(self, flag: str, kind: str, names: Iterable[str]) -> None:
        self._flag, self._kind = flag, kind
        self._missing = {name for name in names if name}
        self._found: dict[str, None] = {}
        self._is_empty = True

    def observe(self, names: Iterable[str]) -> None:
        """Record the names of one run."""
        self._is_empty = False
        if self._missing:
            self._found.update(dict.fromkeys(names))
            self._missing -= self._found.keys()

    def check(self) -> None:
        """Refuse names that no run had; a source without runs is refused elsewhere.

        Raises
        ------
        UnknownNameError
            If there are such names; the remedy lists the existing ones.
        """
        if self._is_empty or not self._missing:
            return
        name = min(self._missing)
        names = sorted(self._found)
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        shown = ", ".join(names[:_SHOWN_NAMES]) or "none"
        raise UnknownNameError(
            f"{self._flag} names the {self._kind} {name!r}, which no run has.",
            f"{nearest_hint(name, self._found)}There are: {shown}{more}.",
        )
