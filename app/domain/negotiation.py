"""Which of several forms of an answer a caller prefers."""

from collections.abc import Sequence
from typing import NamedTuple


class _Preference(NamedTuple):
    """The quality value of a name, from 0 to 1, and how far in front it is in its header."""

    quality: float
    lead: int


_UNNAMED = _Preference(0.0, 0)


def preferred(header: str | None, offered: Sequence[str]) -> str:
    """Return the offer that an `Accept` or `Accept-Encoding` header prefers.

    Of the names that cover an offer, the most specific one counts (RFC 9110, 12.5.1). Ties go to
    the offer that the header names first, then to the one offered first, which is also the answer
    if the header accepts none.

    Parameters
    ----------
    header
        The header's value, None where there is none.
    offered
        Media types or codings, at least one.

    Examples
    --------
    >>> kinds = "application/json", "text/plain", "text/csv"
    >>> preferred("text/html, text/plain;q=0.9", kinds), preferred("*/*", kinds)
    ('text/plain', 'application/json')
    >>> preferred("text/csv;q=high, text/plain;level=1;q=0.5, text/*;q=0", kinds)
    'text/plain'
    >>> preferred("*/*, application/json;q=0", kinds), preferred(None, kinds)
    ('text/plain', 'application/json')
    >>> preferred("text/csv;q=1, text/plain", kinds)
    'text/csv'
    >>> [preferred(header, ("identity", "gzip")) for header in ("br, gzip;q=0.5", "gzip;q=0, *")]
    ['gzip', 'identity']
    """
    preferences = _preferences(header or "")
    preference_of = {name: _preference_for(name, preferences) for name in offered}
    best = max(offered, key=lambda name: preference_of[name])
    return best if preference_of[best].quality > 0 else offered[0]


def _preference_for(name: str, preferences: dict[str, _Preference]) -> _Preference:
    kind, slash, _ = name.partition("/")
    ranges = (name, f"{kind}/*", "*/*") if slash else (name, "*")
    return next(
        (preferences[media_range] for media_range in ranges if media_range in preferences), _UNNAMED
    )


def _preferences(header: str) -> dict[str, _Preference]:
    """Return the preference of a header for each name, the best if it gives several."""
    preferences: dict[str, _Preference] = {}
    for position, item in enumerate(header.split(",")):
        name, *parameters = (part.strip().casefold() for part in item.split(";"))
        preference = _Preference(_quality(parameters), -position)
        preferences[name] = max(preference, preferences.get(name, preference))
    return preferences


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                quality = float(value)
            except ValueError:
                return 0.0
            return quality if 0.0 <= quality <= 1.0 else 0.0
    return 1.0
