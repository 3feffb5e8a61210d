"""Identifiers: opaque prefixed strings that sort by creation time, and the workload's slug."""

import os
import re
import time
from datetime import datetime
from functools import lru_cache, reduce
from typing import Final, NewType

ProjectId = NewType("ProjectId", str)
KeyId = NewType("KeyId", str)
WorkloadId = NewType("WorkloadId", int)
Slug = NewType("Slug", str)
RunId = NewType("RunId", str)
FitId = NewType("FitId", str)
ForecastId = NewType("ForecastId", str)
CiReportId = NewType("CiReportId", str)
PriceId = NewType("PriceId", str)
ExchangeRateId = NewType("ExchangeRateId", str)
GridFactorId = NewType("GridFactorId", str)

RegressorKey = tuple[Slug, int | None]
"""A workload's name and the version asked for, None for the one that answers."""

SLUG_PATTERN: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_MAX_CACHED_CHARACTERS: Final = 200
ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"
"""Base 32 without letters that are mistaken for digits."""
_RANDOM_BITS: Final = 72
TIME_CHARACTERS: Final = 10
"""How many characters of an identifier after its prefix encode its creation time."""
_RANDOM_CHARACTERS: Final = 15
_BLOCK_CHARACTERS: Final = 2
# The last characters of consecutive identifiers, so that only every 1024th is computed.
_BLOCK: Final = tuple(first + second for first in ALPHABET for second in ALPHABET)
_OF_BYTE: Final = (ALPHABET * (256 // len(ALPHABET))).encode()
"""The character for each byte; all characters are equally frequent."""
_DRAWN_BYTES: Final = 16
_DRAWN_AT_ONCE: Final = 256
_drawn: Final[list[bytes]] = []
# A forked process must not use bytes that its parent uses too.
os.register_at_fork(after_in_child=_drawn.clear)


def random_bytes() -> bytes:
    """Return 16 random bytes; since system calls are expensive, each draws many of them."""
    try:
        return _drawn.pop()
    except IndexError:
        drawn = os.urandom(_DRAWN_BYTES * _DRAWN_AT_ONCE)
        starts = range(_DRAWN_BYTES, len(drawn), _DRAWN_BYTES)
        _drawn.extend(drawn[start : start + _DRAWN_BYTES] for start in starts)
        return drawn[:_DRAWN_BYTES]


def _base32(number: int, length: int) -> str:
    characters = []
    if length % _BLOCK_CHARACTERS:
        number, digit = divmod(number, len(ALPHABET))
        characters.append(ALPHABET[digit])
    for _ in range(length // _BLOCK_CHARACTERS):
        number, block = divmod(number, len(_BLOCK))
        characters.append(_BLOCK[block])
    characters.reverse()
    return "".join(characters)


@lru_cache(maxsize=16)
def _head(prefix: str, moment_ms: int) -> str:
    return f"{prefix}_{_base32(moment_ms, TIME_CHARACTERS)}"


def _head_of(prefix: str, now: datetime | None) -> str:
    return _head(prefix, time.time_ns() // 1_000_000 if now is None else _milliseconds(now))


def _encoded_milliseconds(identifier: str) -> int:
    digits = identifier.partition("_")[2][:TIME_CHARACTERS]
    return reduce(lambda number, digit: number * len(ALPHABET) + ALPHABET.index(digit), digits, 0)


def _milliseconds(moment: datetime) -> int:
    return max(int(moment.timestamp() * 1000), 0)


def new_identifier(prefix: str, *, now: datetime | None = None) -> str:
    """Return `prefix_` and 25 characters: milliseconds since 1970, then 75 random bits.

    Identifiers made later sort later (to the millisecond), so that newest-first lists and
    B-tree inserts are cheap on every database.
    """
    tail = random_bytes()[:_RANDOM_CHARACTERS].translate(_OF_BYTE)
    return _head_of(prefix, now) + tail.decode()


def new_identifiers(
    prefix: str, count: int, *, now: datetime | None = None, after: str | None = None
) -> list[str]:
    """Return `count` identifiers that sort in the order of the list, all of them after `after`.

    The random part of the first is drawn and then counted upwards, so that the rows of one
    upload keep their order.

    Examples
    --------
    >>> from datetime import UTC
    >>> ahead, behind = (datetime(2026, 11, day, tzinfo=UTC) for day in (2, 1))
    >>> first = new_identifier("price", now=ahead)
    >>> first < new_identifiers("price", 1, now=behind, after=first)[0]
    True
    """
    head = _head_of(prefix, now)
    if after is not None:
        head = max(head, _head(prefix, _encoded_milliseconds(after) + 1))
    # The highest bit stays free, so that counting upwards never overflows.
    start = int.from_bytes(random_bytes()[: _RANDOM_BITS // 8]) >> 1
    first_block, offset = divmod(start, len(_BLOCK))
    blocks = (offset + count - 1) // len(_BLOCK) + 1
    identifiers = [
        block + tail
        for number in range(first_block, first_block + blocks)
        for block in [head + _base32(number, _RANDOM_CHARACTERS - _BLOCK_CHARACTERS)]
        for tail in _BLOCK
    ]
    return identifiers[offset : offset + count]


def earliest_identifier(prefix: str, moment: datetime) -> str:
    """Return the lower bound of all identifiers made at `moment` or later.

    Examples
    --------
    >>> from datetime import UTC
    >>> moment = datetime(2026, 11, 1, tzinfo=UTC)
    >>> made = new_identifier("run", now=moment)
    >>> earliest_identifier("run", moment) <= made
    True
    """
    return f"{prefix}_{_base32(_milliseconds(moment), TIME_CHARACTERS)}"


def parse_slug(text: str) -> Slug | None:
    """Return the case-folded workload id, or None if `text` cannot be one."""
    # The cache must not hold the long texts of hostile uploads.
    parse = _parse_slug if len(text) <= _MAX_CACHED_CHARACTERS else _parse_slug.__wrapped__
    return parse(text)


@lru_cache(maxsize=1024)
def _parse_slug(text: str) -> Slug | None:
    folded = text.strip().casefold()
    return Slug(folded) if SLUG_PATTERN.fullmatch(folded) else None


def is_identifier(prefix: str, text: str) -> bool:
    """Return whether `text` has the form of an identifier; otherwise no lookup is needed."""
    head, _, tail = text.partition("_")
    length = TIME_CHARACTERS + _RANDOM_CHARACTERS
    return head == prefix and len(tail) == length and set(tail) <= set(ALPHABET)
