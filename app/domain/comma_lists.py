"""Comma-separated lists of values, in which a value with commas is quoted as in CSV."""

import re
from collections.abc import Iterable
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


def join_list(values: Iterable[str]) -> str:
    """Return the list that `split_list` splits into these values.

    Examples
    --------
    >>> join_list(["a", "b,c", 'd "e" f'])
    'a,"b,c","d ""e"" f"'
    """
    return ",".join(map(_quoted, values))


def _quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"' if {",", '"'} & set(value) else value


def _unquoted(part: str) -> str:
    part = part.strip()
    if _QUOTED.fullmatch(part):
        return part[1:-1].replace('""', '"').strip()
    return part
