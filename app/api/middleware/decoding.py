"""Decompresses bodies piece by piece, so that a small body cannot grow large in memory."""

import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from app.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    import zstandard

_PIECE_BYTES: Final = 1 << 18
_GZIP_WINDOW: Final = 31
_ZSTD_MAX_WINDOW: Final = 1 << 23
# A block of 4 bytes may expand to 128 KiB, so 256 bytes expand to at most 8 MiB at once.
_ZSTD_SLICE_BYTES: Final = 256
_MAX_MEMBERS: Final = 10_000
"""Starting a member takes microseconds, even if it has a few bytes and no content."""


class Decoder(Protocol):
    """Decodes the chunks of a compressed body into pieces."""

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decoded data of `chunk` in pieces of bounded size."""
        ...

    def is_complete(self) -> bool:
        """Whether the encoded stream may end here."""
        ...


def _corrupt(name: str, reason: object) -> InvalidRequestError:
    return InvalidRequestError(f"The body is not valid {name}: {reason}.")


def _check_members(count: int) -> None:
    if count > _MAX_MEMBERS:
        raise InvalidRequestError(
            f"The compressed body has more than {_MAX_MEMBERS} members. Compress it as one."
        )


class GzipDecoder:
    """Decodes gzip, including several concatenated members (`cat a.gz b.gz`)."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=_GZIP_WINDOW)
        self._members = 1
        self._has_begun = False

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decoded data of `chunk` in pieces of bounded size."""
        while chunk:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=_GZIP_WINDOW)
                self._members += 1
                _check_members(self._members)
            self._has_begun = True
            try:
                piece = self._member.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise _corrupt("gzip", error) from error
            if piece:
                yield piece
            chunk = self._member.unconsumed_tail or self._member.unused_data

    def is_complete(self) -> bool:
        """Whether the encoded stream may end here."""
        return self._member.eof or not self._has_begun


class ZstdDecoder:
    """Decodes zstd, including several concatenated frames."""

    def __init__(self) -> None:
        import zstandard  # noqa: PLC0415 - most web processes never get such a body

        self._zstandard = zstandard
        self._frame = self._new_frame()
        self._frames = 1
        self._has_begun = False

    def _new_frame(self) -> "zstandard.ZstdDecompressionObj":
        decompressor = self._zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)
        return decompressor.decompressobj()

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decoded data of `chunk` in pieces of bounded size."""
        for start in range(0, len(chunk), _ZSTD_SLICE_BYTES):
            rest = chunk[start : start + _ZSTD_SLICE_BYTES]
            while rest:
                if self._frame.eof:
                    self._frame = self._new_frame()
                    self._frames += 1
                    _check_members(self._frames)
                self._has_begun = True
                try:
                    piece = self._frame.decompress(rest)
                except self._zstandard.ZstdError as error:
                    raise _corrupt("zstd", error) from error
                if piece:
                    yield piece
                rest = self._frame.unused_data if self._frame.eof else b""

    def is_complete(self) -> bool:
        """Whether the encoded stream may end here."""
        return self._frame.eof or not self._has_begun


DECODERS: Final[Mapping[str, type[Decoder]]] = {
    "gzip": GzipDecoder,
    "x-gzip": GzipDecoder,
    "zstd": ZstdDecoder,
}
SUPPORTED_ENCODINGS: Final = ("gzip", "zstd", "identity")
