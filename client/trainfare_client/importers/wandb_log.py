"""Reads the log that Weights & Biases writes beside a run: `run-ID.wandb`.

It is a sequence of protobuf messages in LevelDB's log format: blocks of 32 KiB with chunks, each
behind its CRC-32, length and type (https://github.com/google/leveldb/blob/main/doc/log_format.md).
Messages are read by the numbers of their fields, which protobuf keeps the same across versions.
"""

from __future__ import annotations

import zlib
from typing import IO, TYPE_CHECKING, Final

from trainfare_client.importers.faults import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_MESSAGE_BYTES: Final = 64 << 20
_IDENT: Final = b":W&B"
_IDENT_BYTES: Final = 7
_BLOCK_BYTES: Final = 32_768
_HEADER_BYTES: Final = 7
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_MAX_SHIFT: Final = 63
_MORE_FOLLOW: Final = 0x80
_REMEDY: Final = "Copy it again; --skip-invalid imports the other runs."

Message = dict[int, "list[int | bytes]"]
"""The values of each field by its number, in order."""


def read_log(path: str, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the messages of a log; one that breaks off, as after a kill, ends there.

    Raises
    ------
    SourceError
        If it is no log of Weights & Biases, or is damaged.
    """
    ident = file.read(_IDENT_BYTES)
    if not ident.startswith(_IDENT):
        raise SourceError(path, "It is not a log of Weights & Biases.", "Name run-ID.wandb.")
    begun: list[bytes] = []
    for kind, data in _chunks(path, file):
        if kind in {_FULL, _FIRST}:
            begun = []
        begun.append(data)
        if sum(map(len, begun)) > MAX_MESSAGE_BYTES:
            raise SourceError(path, "A message in it is longer than 64 MiB.", _REMEDY)
        if kind in {_FULL, _LAST}:
            yield b"".join(begun)
            begun = []


def _chunks(path: str, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    position = _IDENT_BYTES
    while True:
        rest = _BLOCK_BYTES - position % _BLOCK_BYTES
        if rest < _HEADER_BYTES:
            if len(file.read(rest)) < rest:
                return
            position += rest
            continue
        header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES or header == bytes(_HEADER_BYTES):
            return
        length, kind = int.from_bytes(header[4:6], "little"), header[6]
        data = file.read(length)
        if len(data) < length:
            return
        checksum = int.from_bytes(header[:4], "little")
        if zlib.crc32(header[6:] + data) != checksum or not _FULL <= kind <= _LAST:
            raise SourceError(path, f"It is damaged at byte {position:,}.", _REMEDY)
        position += _HEADER_BYTES + length
        yield kind, data


def fields_of(message: bytes) -> Message:
    """Return a protobuf message's values by field number: integers, and bytes of all else.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> fields_of(bytes([8, 150, 1, 18, 2]) + b"hi")
    {1: [150], 2: [b'hi']}
    >>> fields_of(bytes([9]) + b"eight of" + bytes([21]) + b"four")
    {1: [b'eight of'], 2: [b'four']}
    """
    fields: Message = {}
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        value: int | bytes
        wire = key & 7
        if wire == _VARINT:
            value, position = _varint(message, position)
        else:
            length = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(wire)
            if wire == _LENGTH:
                length, position = _varint(message, position)
            if length is None or length > len(message) - position:
                raise ValueError(f"field at byte {position}")
            value = message[position : position + length]
            position += length
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return a number in the groups of seven bits from a position, and the position behind it."""
    number = shift = 0
    while shift <= _MAX_SHIFT:
        if position >= len(message):
            break
        byte = message[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < _MORE_FOLLOW:
            return number, position
        shift += 7
    raise ValueError(f"number at byte {position}")
