"""Artefacts that somebody made up, hashes and all: refused, or usable, never a crash."""

import hashlib
import io
import json
import tracemalloc
import zipfile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import ArtifactError, dumps, loads
from models.packing import MAGIC, pack, unpack
from tests.models.workloads import fit, grid, make_runs

_ASKED = make_runs(grid((1, 3, 16), gpu_types=("V100", "K80", "T4"))).features
_HOSTILE: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 7, 2**31, 2**63, 10**400, 1e308, -1e308, 1e-320]),
    st.sampled_from(["", "x", "workers", "nan", "1e999"]),
    st.sampled_from([[], {}, [[]], [None], ["x"], {"x": 1}, [1] * 100]),
)


@pytest.fixture(scope="module")
def artefact() -> bytes:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    return dumps(fit(runs, regressors=["scaling_law", "gaussian_process", "residual_trees"]))


def _sealed(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).digest() + body


def _places(value: object) -> list[tuple[Any, Any]]:
    """Return every container and key of a header."""
    if isinstance(value, dict):
        children: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        return []
    found = [(value, key) for key, _ in children]
    return found + [place for _, child in children for place in _places(child)]


def _is_refused_or_finite(hostile: bytes) -> None:
    try:
        portfolio = loads(hostile)
    except ArtifactError:
        return
    try:
        lower, upper = portfolio.predict(_ASKED).interval(0.9)
    except ValueError:
        return
    assert np.isfinite(lower).all()
    assert np.isfinite(upper).all()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_forged_header_is_refused_or_answers_finitely(artefact: bytes, data: st.DataObject) -> None:
    parts = unpack(artefact)
    header = json.loads(parts["header.json"])
    container, key = data.draw(st.sampled_from(_places(header)))
    if data.draw(st.booleans()):
        container[key] = data.draw(_HOSTILE)
    else:
        del container[key]
    parts["header.json"] = json.dumps(header).encode()

    _is_refused_or_finite(pack(parts))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_forged_numbers_are_refused_or_answer_finitely(
    artefact: bytes, data: st.DataObject
) -> None:
    parts = unpack(artefact)
    block = np.load(io.BytesIO(parts["arrays.npy"]))
    place = data.draw(st.integers(0, len(block) - 1))
    block[place] = data.draw(st.sampled_from([0.0, -1.0, 1e300, -1e300, 1e-300, 0.5, 1e18]))
    buffer = io.BytesIO()
    np.save(buffer, block)

    _is_refused_or_finite(pack({**parts, "arrays.npy": buffer.getvalue()}))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_damaged_archive_under_a_right_hash_is_refused(
    artefact: bytes, data: st.DataObject
) -> None:
    body = bytearray(artefact[len(MAGIC) + 32 :])
    # The directory at the end and the headers between the parts are as telling as the data.
    place = data.draw(st.one_of(st.integers(0, len(body) - 1), st.integers(1, 400)))
    body[-place] ^= data.draw(st.integers(1, 255))

    _is_refused_or_finite(_sealed(bytes(body)))


@pytest.mark.parametrize("nested", [b"[" * 200_000, b'{"a":' * 200_000, b"9" * 5_000])
def test_nested_or_endless_json_is_refused(artefact: bytes, nested: bytes) -> None:
    parts = unpack(artefact)

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
