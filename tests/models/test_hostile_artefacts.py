"""Artefacts that somebody made up, hashes and all: refused, or usable, never a crash."""

import hashlib
import io
import tracemalloc
import zipfile
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import ArtifactError, dumps, loads
from models.packing import MAGIC, pack, unpack
from tests.models.workloads import fit, grid, make_runs

_ASKED = make_runs(grid((1, 3, 16), gpu_types=("V100", "K80", "T4"))).features


@dataclass(frozen=True)
class _Artefact:
    """Bytes that no failure prints in full."""

    data: bytes = field(repr=False)


@pytest.fixture(scope="module")
def artefact() -> _Artefact:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    return _Artefact(
        dumps(fit(runs, regressors=["scaling_law", "gaussian_process", "residual_trees"]))
    )


def _sealed(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).digest() + body


def _is_refused_or_finite(hostile: bytes) -> None:
    # An overflow on the way ends in a refusal, not in a warning.
    with np.errstate(all="ignore"):
        try:
            lower, upper = loads(hostile).predict(_ASKED).interval(0.9)
        except ValueError:
            return
    assert np.isfinite(lower).all()
    assert np.isfinite(upper).all()


_SHARE = st.floats(0, 0.999999)


@settings(max_examples=100, deadline=None)
@given(share=_SHARE, flip=st.integers(1, 255))
def test_damaged_archive_under_a_right_hash_is_refused(
    artefact: _Artefact, share: float, flip: int
) -> None:
    body = bytearray(artefact.data[len(MAGIC) + 32 :])
    # Half of the damage goes to the directory at the end, which is as telling as the data.
    place = int(2 * share * len(body)) if share < 0.5 else len(body) - 1 - int(800 * (share - 0.5))
    body[place] ^= flip

    _is_refused_or_finite(_sealed(bytes(body)))


@pytest.mark.parametrize("nested", [b"[" * 200_000, b'{"a":' * 200_000, b"9" * 5_000])
def test_nested_or_endless_json_is_refused(artefact: _Artefact, nested: bytes) -> None:
    parts = unpack(artefact.data)

    with pytest.raises(ArtifactError):
        loads(pack({**parts, "header.json": nested}))


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
