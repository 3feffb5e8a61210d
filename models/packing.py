"""The container of an artefact: named parts with sizes and hashes, checked before they are used."""

import hashlib
import io
import json
import struct
import zipfile
import zlib
from collections.abc import Mapping

from models.errors import ArtifactError

MAGIC = b"TRAINFARE\x01"
MAX_ARTEFACT_BYTES = 256 * 2**20
MAX_PART_BYTES = 192 * 2**20
MAX_PARTS = 64
MANIFEST = "manifest.json"

_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    LookupError,
    ValueError,
    OSError,
    RuntimeError,
    EOFError,
)
"""What reading a damaged archive raises; a RecursionError of nested JSON is a RuntimeError."""

_EPOCH = (1980, 1, 1, 0, 0, 0)
_DIGEST_BYTES = 32


def pack(parts: Mapping[str, bytes]) -> bytes:
    """Return a container of parts; equal parts give equal bytes.

    The container is a magic number, the SHA-256 of what follows, and a zip archive with fixed
    timestamps whose manifest gives size and SHA-256 of every part.

    Examples
    --------
    >>> unpack(pack({"note": b"text"}))
    {'note': b'text'}
    """
    manifest = {
        name: {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()}
        for name, part in sorted(parts.items())
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, part in ((MANIFEST, _encode(manifest)), *sorted(parts.items())):
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.compress_type = _compression(name)
            archive.writestr(info, part)
    body = buffer.getvalue()
    return MAGIC + hashlib.sha256(body).digest() + body


def _compression(name: str) -> int:
    # Numbers and hashes hardly shrink, and inflating them takes a fifth of the time of a load.
    return zipfile.ZIP_STORED if name.endswith((".npy", ".bin")) else zipfile.ZIP_DEFLATED


def unpack(data: bytes) -> dict[str, bytes]:
    """Return the parts of a container.

    Raises
    ------
    ArtifactError
        If the bytes are not a container, were truncated or altered, or declare sizes beyond the
        bounds; nothing is decompressed before its size was checked.
    """
    start = len(MAGIC) + _DIGEST_BYTES
    if len(data) > MAX_ARTEFACT_BYTES or not data.startswith(MAGIC) or len(data) <= start:
        raise ArtifactError("These bytes are not an artefact of this service.")
    body = memoryview(data)[start:]
    if hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        raise ArtifactError("The artefact was truncated or altered: its hash does not match.")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return _checked_parts(archive)
    except _DAMAGE as error:
        if isinstance(error, ArtifactError):
            raise
        raise ArtifactError(f"The artefact cannot be unpacked: {error}") from error


def _checked_parts(archive: zipfile.ZipFile) -> dict[str, bytes]:
    infos = archive.infolist()
    sizes = [info.file_size for info in infos]
    if len(infos) > MAX_PARTS or any(size > MAX_PART_BYTES for size in sizes):
        raise ArtifactError("The artefact declares more or larger parts than any fit has.")
    if sum(sizes) > MAX_ARTEFACT_BYTES or len({info.filename for info in infos}) < len(infos):
        raise ArtifactError("The artefact declares too much data, or a part twice.")
    if any(info.compress_type != _compression(info.filename) for info in infos):
        raise ArtifactError("The artefact is compressed in a way that no fit uses.")
    parts = {info.filename: _read(archive, info) for info in infos}
    manifest = json.loads(parts.pop(MANIFEST))
    if not isinstance(manifest, dict) or set(manifest) != set(parts):
        raise ArtifactError("The artefact's parts are not those of its manifest.")
    for name, part in parts.items():
        expected = {"bytes": len(part), "sha256": hashlib.sha256(part).hexdigest()}
        if manifest[name] != expected:
            raise ArtifactError(f"The artefact's part {name!r} was altered.")
    return parts


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as stream:
        part = stream.read(info.file_size + 1)
    if len(part) != info.file_size:
        raise ArtifactError(f"The artefact's part {info.filename!r} has not its declared size.")
    return part


def _encode(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
