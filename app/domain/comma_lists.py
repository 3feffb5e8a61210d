"""Comma-separated lists of values, in which a value with commas is quoted as in CSV."""

import re
from typing import Final

_QUOTED: Final = re.compile(r'"(?:[^"]|"")*"')
_PART: Final = re.compile(rf"\s*{_QUOTED.pattern}\s*(?=,|$)|[^,]+")


def split_list(text: str) -> list[str]:
    """Return the values of a list, each once; empty ones are ignored.

    Examples
    --------
    >>> split_list('a, ,"b,c" ,"d ""e"" f",,5" disk,a')
    ['a', 'b,c', 'd "e" f', '5" disk']
    """
    parts = map(_unquoted, _PART.findall(text))
    return list(dict.fromkeys(part for part in parts if part))


def _unquoted(part: str) -> str:
    part = part.strip()
    if _QUOTED.fullmatch(part):
        return part[1:-1].replace('""', '"').strip()
    return part
