"""The container of an artefact: named parts under one hash, which is checked before use."""

import hashlib
from collections.abc import Mapping

import orjson

from models.errors import ArtifactError

MAGIC = b"TRAINFARE\x02"
MAX_ARTEFACT_BYTES = 256 * 2**20
MAX_PART_BYTES = 192 * 2**20
MAX_PARTS = 64

_FORMER_MAGIC = b"TRAINFARE\x01"
_DIGEST_BYTES, _LENGTH_BYTES = 32, 4
_START = len(MAGIC) + _DIGEST_BYTES + _LENGTH_BYTES
_ALIGNMENT = 64
_MAX_TABLE_BYTES = 64 * 2**10


def pack(parts: Mapping[str, bytes | memoryview]) -> bytes:
    """Return a container of parts; equal parts give equal bytes.

    The container consists of a magic number, the SHA-256 of what follows, the length of a JSON
    table (name and bytes of each part) in four bytes, the table, and the parts as they are. Each
    part begins at a multiple of 64 bytes, so that its numbers can be used in place.

    Examples
    --------
    >>> bytes(unpack(pack({"note": b"text"}))["note"])
    b'text'
    """
    ordered = sorted(parts.items())
    table = orjson.dumps([[name, len(part)] for name, part in ordered])
    body = bytearray(len(table).to_bytes(_LENGTH_BYTES, "big") + table)
    for _, part in ordered:
        body += bytes(_padding(_START - _LENGTH_BYTES + len(body)))
        body += part
    return MAGIC + hashlib.sha256(body).digest() + body


def unpack(data: bytes) -> dict[str, memoryview]:
    """Return the parts of a container as views, without copying.

    Raises
    ------
    ArtifactError
        If the bytes are not a container, were truncated or altered, or declare sizes that exceed
        the bounds or differ from the actual ones.
    """
    if data.startswith(_FORMER_MAGIC):
        raise ArtifactError("The artefact has a former format; fit the workload again.")
    if len(data) > MAX_ARTEFACT_BYTES or not data.startswith(MAGIC) or len(data) < _START:
        raise ArtifactError("These bytes are not an artefact of this service.")
    whole = memoryview(data).toreadonly()
    digest = whole[len(MAGIC) : len(MAGIC) + _DIGEST_BYTES]
    if hashlib.sha256(whole[len(MAGIC) + _DIGEST_BYTES :]).digest() != digest:
        raise ArtifactError("The artefact was truncated or altered: its hash does not match.")
    length = int.from_bytes(whole[_START - _LENGTH_BYTES : _START], "big")
    if length > _MAX_TABLE_BYTES:
        raise ArtifactError("The artefact declares more parts than any fit has.")
    return _cut(whole, _read_table(whole[_START : _START + length]), _START + length)


def _padding(position: int) -> int:
    """Return the number of bytes from a position to the start of the next part."""
    return -position % _ALIGNMENT


def _read_table(text: memoryview) -> list[tuple[str, int]]:
    """Return the name and length of each part, all checked."""
    try:
        table = orjson.loads(text)
        entries = [(name, length) for name, length in table]
    except (ValueError, TypeError) as error:
        raise ArtifactError("The artefact's table of parts is damaged.") from error
    if len(entries) > MAX_PARTS:
        raise ArtifactError("The artefact declares more parts than any fit has.")
    for name, length in entries:
        if type(name) is not str or type(length) is not int:
            raise ArtifactError("The artefact's table of parts is damaged.")
        if not 0 <= length <= MAX_PART_BYTES:
            raise ArtifactError("The artefact declares a larger part than any fit has.")
    return entries


def _cut(whole: memoryview, table: list[tuple[str, int]], position: int) -> dict[str, memoryview]:
    """Return the parts that the table declares, which must make up the whole rest."""
    parts = {}
    for name, length in table:
        position += _padding(position)
        parts[name] = whole[position : position + length]
        position += length
    if len(parts) < len(table) or position != len(whole):
        raise ArtifactError("The artefact has other parts than it declares.")
    return parts
