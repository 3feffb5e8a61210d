"""Reads lines and documents of bounded size, and says where they are bad."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.faults import SourceError, at_line
from trainfare_client.importers.opening import Source, opened

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE_BYTES: Final = 64 << 20
_MAX_DOCUMENT_BYTES: Final = 128 << 20
_PIECE_BYTES: Final = 1 << 18
_BOM: Final = b"\xef\xbb\xbf"


def byte_lines(source: Source, path: str) -> Iterator[tuple[str, bytes]]:
    """Yield each line with its place.

    Raises
    ------
    SourceError
        If a line is longer than 64 MiB.
    """
    for number, line in enumerate(_split_lines(source, path), start=1):
        yield at_line(path, number), line.removeprefix(_BOM) if number == 1 else line


def _split_lines(source: Source, path: str) -> Iterator[bytes]:
    line_count, parts, size = 0, [b""], 0
    while piece := source.read(_PIECE_BYTES):
        first, *others = piece.split(b"\n")
        parts.append(first)
        size += len(first)
        if size > MAX_LINE_BYTES:
            raise SourceError(
                at_line(path, line_count + 1),
                "The line is longer than 64 MiB.",
                "Is it the file that you meant?",
            )
        if others:
            yield b"".join(parts)
            yield from others[:-1]
            line_count += len(others)
            parts, size = others[-1:], len(others[-1])
    if any(parts):
        yield b"".join(parts)


def text_lines(path: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of a UTF-8 text with their places.

    Raises
    ------
    SourceError
        If the source cannot be read or is not UTF-8.
    """
    with opened(path) as file:
        for place, line in byte_lines(file, path):
            yield place, _decoded(place, line)


def _decoded(place: str, line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise SourceError(
            place, f"It is not UTF-8: {error.reason}.", "Save the file as UTF-8."
        ) from None


def document(path: str) -> Any:
    """Return the JSON document in a file.

    Raises
    ------
    SourceError
        If it is larger than 128 MiB or not JSON.
    """
    return parsed(path, read_document(path))


def read_document(path: str) -> bytes:
    """Return a file's content, decompressed.

    Raises
    ------
    SourceError
        If it is larger than 128 MiB or cannot be read.
    """
    with opened(path) as file:
        content = bytearray()
        while piece := file.read(_PIECE_BYTES):
            content += piece
            if len(content) > _MAX_DOCUMENT_BYTES:
                raise SourceError(path, "It is larger than 128 MiB.", "Export less at a time.")
    return bytes(content.removeprefix(_BOM))


def parsed(place: str, content: bytes | str) -> Any:
    """Return the value of a JSON text.

    Raises
    ------
    SourceError
        If it is not JSON.
    """
    remedy = "Is it the file that you meant, and is it whole?"
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        error_place = place if error.lineno == 1 else at_line(place, error.lineno)
        raise SourceError(
            error_place, f"It is not JSON: {error.msg} (column {error.colno}).", remedy
        ) from None
    except RecursionError:
        raise SourceError(place, "It is nested too deeply.", remedy) from None
    except ValueError as error:
        raise SourceError(place, f"It is not JSON: {error}.", remedy) from None
