"""Archives that declare what they are not: refused before they take memory."""

import hashlib
import io
import tracemalloc
import zipfile

import pytest

from models import ArtifactError, loads
from models.packing import MAGIC


def _sealed(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).digest() + body


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_are_refused(method: int) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr("manifest.json", b"{}" * 1000)

    with pytest.raises(ArtifactError, match="compressed in a way"):
        loads(_sealed(buffer.getvalue()))


def test_part_larger_than_it_declares_takes_no_memory() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", bytes(64 * 2**20))
    body = buffer.getvalue().replace((64 * 2**20).to_bytes(4, "little"), (10).to_bytes(4, "little"))

    tracemalloc.start()

    with pytest.raises(ArtifactError):
        loads(_sealed(body))

    assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    tracemalloc.stop()
