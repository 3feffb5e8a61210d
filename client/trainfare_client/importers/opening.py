"""Opens sources: plain, gzip or zstd by their first bytes, read in bounded memory."""

from __future__ import annotations

import contextlib
import gzip
import sys
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from trainfare_client.importers.faults import SourceError
from trainfare_client.progress import ProgressBar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

STDIN: Final = "-"
MAX_RATIO: Final = 1000
"""The largest factor by which a compressed source may grow: endless repetitions of the same lines
stay below it, zeros do not."""
_RATIO_FROM_BYTES: Final = 16 << 20
_SHOWN_FROM_BYTES: Final = 8 << 20
_BUFFER_BYTES: Final = 1 << 18
_MAGIC_BYTES: Final = 8
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_UNSUPPORTED_COMPRESSIONS: Final = {
    b"LZ4Block": "lz4 blocks as Spark writes them",
    b"\x04\x22\x4d\x18": "lz4",
    b"\x82SNAPPY\x00": "snappy",
    b"ZV": "LZF",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
}
_BINARY_FORMATS: Final = {
    b"PK\x03\x04": "a spreadsheet or another zip archive",
    b"\xd0\xcf\x11\xe0": "a spreadsheet",
    b"PAR1": "a Parquet table",
    b"\xff\xfe": "text in UTF-16",
    b"\xfe\xff": "text in UTF-16",
}


class TruncatedError(SourceError):
    """A compressed source is cut off."""


@contextlib.contextmanager
def opened(path: str) -> Iterator[Source]:
    """Open a source for reading, decompressed; `-` is standard input.

    A progress bar over its bytes is drawn if it is long and a terminal is attached.

    Raises
    ------
    SourceError
        If it cannot be read, has another compression, is cut or broken, or grows to more than 1000
        times its size.
    """
    with contextlib.ExitStack() as stack:
        try:
            plain = stack.enter_context(_source(path))
            size = None if path == STDIN else Path(path).stat().st_size
        except OSError as error:
            raise SourceError(
                path, f"It cannot be read: {error.strerror}.", "Check the path."
            ) from None
        is_long = size is None or size > _SHOWN_FROM_BYTES
        progress = stack.enter_context(ProgressBar("bytes", total=size)) if is_long else None
        yield Source(path, _CountingReader(plain, progress))


def _source(path: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    return contextlib.nullcontext(sys.stdin.buffer) if path == STDIN else Path(path).open("rb")


class _CountingReader:
    """Reads a file, counting bytes and showing progress."""

    def __init__(self, source: IO[bytes], progress: ProgressBar | None) -> None:
        self._head = source.read(_MAGIC_BYTES)
        self.magic = self._head
        self._source = source
        self._progress = progress
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        wanted = size if size >= 0 else _BUFFER_BYTES
        piece = self._head[:wanted] or self._source.read(wanted)
        self._head = self._head[wanted:]
        self.count += len(piece)
        if self._progress is not None:
            self._progress.advance(len(piece))
        return piece


class Source:
    """Reads decompressed bytes, and refuses more than an honest source can hold."""

    def __init__(self, path: str, source: _CountingReader) -> None:
        self._path = path
        self._source = source
        self._tool: str | None = None
        self._faults: tuple[type[Exception], ...] = ()
        self._read_piece = self._reader()
        self._count = 0

    def _reader(self) -> Callable[[int], bytes]:
        """Return what reads up to so many decompressed bytes, also before a cut."""
        magic = self._source.magic
        if magic.startswith(_GZIP):
            self._tool, self._faults = "gzip", (gzip.BadGzipFile, zlib.error)
            return gzip.GzipFile(fileobj=self._source, mode="rb").read1  # type: ignore[call-overload, no-any-return] # it only reads
        if magic.startswith(_ZSTD):
            zstd = _zstd(self._path)
            self._tool, self._faults = "zstd", (zstd.ZstdError,)
            return zstd.ZstdFile(self._source).read1  # type: ignore[no-any-return]
        self._refuse_unsupported(magic)
        return self._source.read

    def _refuse_unsupported(self, magic: bytes) -> None:
        for prefix, name in _UNSUPPORTED_COMPRESSIONS.items():
            if magic.startswith(prefix):
                raise SourceError(
                    self._path,
                    f"It is compressed as {name}.",
                    "Unpack it, or compress it with gzip or zstd"
                    " (Spark: spark.eventLog.compression.codec=zstd).",
                )
        for prefix, name in _BINARY_FORMATS.items():
            if magic.startswith(prefix):
                remedy = "Save it as text in UTF-8, a table as CSV; unpack an archive."
                raise SourceError(self._path, f"It is {name}.", remedy)

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes, none at the end.

        Raises
        ------
        SourceError
            If the source is cut, broken, or grows too much.
        """
        piece = self._read(size)
        self._count += len(piece)
        grown = self._count > max(_RATIO_FROM_BYTES, MAX_RATIO * self._source.count)
        if self._tool is not None and grown:
            raise SourceError(
                self._path,
                f"It grows to more than {MAX_RATIO:,} times its size: no honest file does.",
                "If you trust it, unpack it first.",
            )
        return piece

    def _read(self, size: int) -> bytes:
        try:
            piece = self._read_piece(size)
        except EOFError:
            raise _truncated(self._path) from None
        except self._faults as error:
            raise SourceError(
                self._path,
                f"It is broken: {error}.",
                f"Copy it again; check it with {self._tool} -t.",
            ) from None
        except OSError as error:
            raise SourceError(
                self._path, f"It cannot be read: {error}.", "Check the path."
            ) from None
        return piece


def _zstd(path: str) -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - only sources in zstd need it
    else:
        try:
            from backports import zstd  # noqa: PLC0415 - as above
        except ImportError:
            raise SourceError(
                path,
                "It is compressed with zstd, which this Python cannot read.",
                "pip install backports.zstd, or unpack it with zstd -d.",
            ) from None
    return zstd


def _truncated(path: str) -> TruncatedError:
    return TruncatedError(
        path,
        "It is cut off: its compressed data ends too early.",
        "Copy it again, whole; was it still being written?",
    )
