"""Identifiers: opaque prefixed strings that sort by creation time, and the workload's slug."""

import os
import re
import time
from typing import Final, NewType

ProjectId = NewType("ProjectId", str)
KeyId = NewType("KeyId", str)
WorkloadId = NewType("WorkloadId", int)
Slug = NewType("Slug", str)
RunId = NewType("RunId", str)
FitId = NewType("FitId", str)
ForecastId = NewType("ForecastId", str)
PriceId = NewType("PriceId", str)

SLUG_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS: Final = 72
_TIME_CHARACTERS: Final = 10
_RANDOM_CHARACTERS: Final = 15


def _base32(number: int, length: int) -> str:
    characters = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        characters.append(_ALPHABET[digit])
    return "".join(reversed(characters))


def new_identifier(prefix: str, *, now_ms: int | None = None) -> str:
    """Return `prefix_` and 25 characters: milliseconds since 1970, then 72 random bits.

    Identifiers made later sort later (to the millisecond), so that newest-first lists and
    B-tree inserts are cheap on every database.
    """
    return new_identifiers(prefix, 1, now_ms=now_ms)[0]


def new_identifiers(prefix: str, count: int, *, now_ms: int | None = None) -> list[str]:
    """Return `count` identifiers that sort in the order of the list.

    The random part of the first is drawn and then counted upwards, so that the rows of one
    upload keep their order.
    """
    moment = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    start = int.from_bytes(os.urandom(_RANDOM_BITS // 8)) >> 1
    head = f"{prefix}_{_base32(moment, _TIME_CHARACTERS)}"
    return [f"{head}{_base32(start + index, _RANDOM_CHARACTERS)}" for index in range(count)]


def parse_slug(text: str) -> Slug | None:
    """Return the case-folded workload id, or None when `text` cannot be one."""
    folded = text.strip().casefold()
    return Slug(folded) if SLUG_PATTERN.fullmatch(folded) else None
