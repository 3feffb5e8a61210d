"""Reads JSON values from a stream one by one, so that a large array is never in memory whole."""

import json
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from typing import IO, Final

import orjson

from app.domain.errors import InvalidRequestError
from app.services.uploads.separators import KEEPING_LINE_BREAKS

MAX_VALUE_CHARACTERS: Final = 1 << 20
_BLOCK: Final = 1 << 16
_LINES_BLOCK: Final = 1 << 17
_BLOCK_LINES: Final = 4096
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_NO_SPACE: Final = re.compile(r"[^ \t\r\n]")
_UNTERMINATED: Final = "Unterminated string"
"""How the decoder's message begins when the text ends inside a string, wherever it began."""
_PYTHON_NUMBERS: Final = ("NaN", "Infinity")
_LONGEST_WORD: Final = 16
"""Any other error due to the end of the text is reported at most this far before it."""


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """Stands for a line that is not JSON.

    Attributes
    ----------
    reason
        The fault and its column.
    remedy
        What to do about it; empty if the line tells no more.
    """

    reason: str
    remedy: str = ""


def read_lines(body: IO[bytes]) -> Generator[list[object], None, None]:
    """Yield the values of the lines that are not blank, a few thousand at a time.

    `MalformedLine` stands for a line that is not JSON. Only little text is decoded at once: a MiB
    of it can become fifty, and decoding takes twice as long outside the processor's cache.

    Raises
    ------
    InvalidRequestError
        If a line, with its line break, is longer than a MiB.
    """
    for lines in _line_blocks(body):
        for start in range(0, len(lines), _BLOCK_LINES):
            values = _values(lines[start : start + _BLOCK_LINES])
            if values:
                yield values


def _line_blocks(body: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield lines without their line breaks: those completed by each 128 KiB of the body."""
    body.seek(0)
    rest = body.read(len(_BYTE_ORDER_MARK)).removeprefix(_BYTE_ORDER_MARK)
    block = body.read(_LINES_BLOCK)
    while rest or block:
        lines, following = (rest + block).split(b"\n"), body.read(_LINES_BLOCK)
        # At the end of the body, what has no line break is a line too.
        rest = lines.pop() if following else b""
        if max([len(rest), *map(len, lines)]) >= MAX_VALUE_CHARACTERS:
            raise InvalidRequestError(
                "A line is longer than one MiB. Put each run on a line of its own;"
                f" {KEEPING_LINE_BREAKS}."
            )
        yield lines
        block = following


def _values(lines: Sequence[bytes]) -> list[object]:
    try:
        return list(map(orjson.loads, lines))
    except orjson.JSONDecodeError:
        return [_value(line) for line in lines if line.strip()]


def _value(line: bytes) -> object:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if not _is_utf8(line):
            return MalformedLine("it is not UTF-8", "Save the file as UTF-8.")
        return _malformed_line(error)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _malformed_line(error: orjson.JSONDecodeError) -> MalformedLine:
    line, rest = error.doc[: error.pos], error.doc[error.pos :].strip()
    word = next((word for word in _PYTHON_NUMBERS if rest.startswith(word)), None)
    if word is not None:
        reason = f"{word} is not a JSON value, at column {error.colno}"
        return MalformedLine(reason, "Send null, or leave the value out.")
    remedy = ""
    if not rest:
        remedy = "Put each run on one line; a run or an array over several is application/json."
    elif rest.startswith("{") and _is_object(line):
        remedy = f"Put each run on a line of its own; {KEEPING_LINE_BREAKS}."
    elif rest == "," and _is_object(line):
        remedy = "End the lines without commas, or send an array as application/json."
    return MalformedLine(f"{error.msg} at column {error.colno}", remedy)


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def read_document(body: IO[bytes]) -> Generator[object, None, None]:
    """Yield the elements of a document that is an array, or the one value that it is.

    Raises
    ------
    InvalidRequestError
        If the document is empty or not JSON, or an element is larger than a MiB.
    """
    body.seek(0)
    text = TextIOWrapper(body, encoding="utf-8-sig", newline="")
    try:
        yield from _Document(text).elements()
    except UnicodeDecodeError as error:
        raise InvalidRequestError("The body is not UTF-8.") from error
    finally:
        text.detach()


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON value")


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


class _Document:
    def __init__(self, text: TextIOWrapper) -> None:
        self._text = text
        self._buffer = ""
        self._position = 0
        self._dropped = 0
        self._dropped_lines = 0
        self._line_start = 0
        self._decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode

    def elements(self) -> Iterator[object]:
        first = self._next()
        if not first:
            raise InvalidRequestError("The body is empty. Send a run, or an array of runs.")
        if first != "[":
            yield self._value()
            self._end()
            return
        self._position += 1
        if self._next() == "]":
            self._position += 1
            self._end()
            return
        while True:
            yield self._value()
            mark = self._next()
            if mark not in {",", "]"}:
                raise self._malformed("',' or ']' expected", self._position)
            self._position += 1
            if mark == "]":
                return self._end()
            self._next()

    def _fill(self) -> bool:
        block = self._text.read(_BLOCK)
        if not block:
            return False
        ends = self._buffer.count("\n", 0, self._position)
        if ends:
            self._dropped_lines += ends
            self._line_start = self._dropped + self._buffer.rindex("\n", 0, self._position) + 1
        self._dropped += self._position
        self._buffer = self._buffer[self._position :] + block
        self._position = 0
        return True

    def _next(self) -> str:
        """Return the next character that is not white space, '' at the end."""
        while True:
            match = _NO_SPACE.search(self._buffer, self._position)
            if match is not None:
                self._position = match.start()
                return match[0]
            self._position = len(self._buffer)
            if not self._fill():
                return ""

    def _value(self) -> object:
        while True:
            try:
                value, end = self._decode(self._buffer, self._position)
            except (ValueError, RecursionError) as error:
                if not self._may_continue(error) or not self._fill():
                    position = getattr(error, "pos", self._position)
                    raise self._malformed(_reason(error), position) from error
            else:
                self._position = end
                return value

    def _may_continue(self, error: Exception) -> bool:
        """Return whether more text may cure a decoding error.

        Raises
        ------
        InvalidRequestError
            If there is too much undecoded text already.
        """
        if isinstance(error, json.JSONDecodeError):
            is_cut = error.msg.startswith(_UNTERMINATED)
            if not is_cut and error.pos < len(self._buffer) - _LONGEST_WORD:
                return False
        if len(self._buffer) - self._position > MAX_VALUE_CHARACTERS:
            raise self._malformed("a run is larger than one MiB", self._position) from error
        return True

    def _end(self) -> None:
        if self._next():
            raise self._malformed(
                "something follows the end; send several runs as an array, or one per line as"
                " application/x-ndjson",
                self._position,
            )

    def _malformed(self, reason: str, position: int) -> InvalidRequestError:
        """Return the refusal for a fault at a position of the buffer."""
        character = self._dropped + position
        line_start = self._buffer.rfind("\n", 0, position) + 1
        start = self._dropped + line_start if line_start else self._line_start
        line = 1 + self._dropped_lines + self._buffer.count("\n", 0, position)
        return InvalidRequestError(
            f"The body is not JSON at line {line}, column {character - start + 1}"
            f" (character {character}): {reason}."
        )
