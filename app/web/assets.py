"""The static files of the page, read once; their URLs change whenever any file changes."""

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

_MEDIA_TYPES: Final[Mapping[str, str]] = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
}
_PLAIN: Final = "text/plain; charset=utf-8"
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file; `compressed` is its gzip form."""

    body: bytes
    compressed: bytes
    media_type: str
    etag: str


@dataclass(frozen=True, slots=True)
class Assets:
    """All files by path; `version` is a digest of the paths and contents.

    The version is a prefix of every path, so that modules can import each other by relative paths
    and browsers may still cache them for ever.
    """

    version: str
    by_path: Mapping[str, Asset]

    def url(self, path: str) -> str:
        """Return a file's URL path, which may be cached for ever."""
        if path not in self.by_path:
            raise LookupError(path)
        return f"/static/{self.version}/{path}"

    def paths(self, folder: str) -> list[str]:
        """Return the paths of the files in a folder, sorted."""
        return sorted(path for path in self.by_path if path.startswith(f"{folder}/"))


def _walk(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.is_dir():
            yield from _walk(entry, f"{path}/")
        else:
            yield path, entry.read_bytes()


def _asset(path: str, body: bytes) -> Asset:
    return Asset(
        body=body,
        compressed=gzip.compress(body, mtime=0),
        media_type=_MEDIA_TYPES.get(path.rpartition(".")[2], _PLAIN),
        etag=f'"{sha256(body).hexdigest()[:_DIGITS]}"',
    )


@cache
def load_assets() -> Assets:
    """Return the static files of the package."""
    by_path = {
        path: _asset(path, body) for path, body in sorted(_walk(files("app.web") / "static"))
    }
    digest = sha256()
    for path, asset in by_path.items():
        digest.update(f"{path} {asset.etag}\n".encode())
    return Assets(digest.hexdigest()[:_DIGITS], by_path)
