"""Decompresses bodies piece by piece, so that a small body cannot grow large in memory."""

import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from app.domain.errors import InvalidRequestError

if TYPE_CHECKING:
    from app.domain.zstd import zstd

_PIECE_BYTES: Final = 1 << 18
_GZIP_WINDOW: Final = 31
_ZSTD_MAX_WINDOW_LOG: Final = 23
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
        from app.domain.zstd import zstd  # noqa: PLC0415 - most web processes never get one

        self._zstd = zstd
        self._frame = self._new_frame()
        self._frames = 1
        self._has_begun = False

    def _new_frame(self) -> "zstd.ZstdDecompressor":
        window = int(self._zstd.DecompressionParameter.window_log_max)
        return self._zstd.ZstdDecompressor(options={window: _ZSTD_MAX_WINDOW_LOG})

    def decode(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the decoded data of `chunk` in pieces of bounded size."""
        while chunk or not (self._frame.eof or self._frame.needs_input):
            if self._frame.eof:
                self._frame = self._new_frame()
                self._frames += 1
                _check_members(self._frames)
            self._has_begun = True
            try:
                piece = self._frame.decompress(chunk, _PIECE_BYTES)
            except self._zstd.ZstdError as error:
                raise _corrupt("zstd", error) from error
            if piece:
                yield piece
            chunk = self._frame.unused_data

    def is_complete(self) -> bool:
        """Whether the encoded stream may end here."""
        return self._frame.eof or not self._has_begun


DECODERS: Final[Mapping[str, type[Decoder]]] = {
    "gzip": GzipDecoder,
    "x-gzip": GzipDecoder,
    "zstd": ZstdDecoder,
}
SUPPORTED_ENCODINGS: Final = ("gzip", "zstd", "identity")
