"""Artefacts: exact, equal for equal fits, and refused when anything is wrong with them."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import (
    FORMAT_VERSION,
    ArtifactError,
    FitReport,
    FittedPortfolio,
    RunTable,
    dumps,
    loads,
)
from models.processes.gaussian import GaussianProcess
from models.state.packing import MAGIC
from tests.models.forging import Artefact
from tests.models.workloads import fit, grid, make_features, make_runs


@pytest.fixture(scope="module")
def portfolio() -> FittedPortfolio:
    return fit(make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000), repetitions=2)))


@pytest.fixture(scope="module")
def artefact(portfolio: FittedPortfolio) -> bytes:
    return dumps(portfolio)


def _forge(artefact: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return an artefact whose header was changed by somebody who knows the hashes."""
    header = Artefact(artefact).header()
    change(header)
    return Artefact(artefact).with_header(header)


def _as_text(report: FitReport) -> str:
    return json.dumps(asdict(report), sort_keys=True)


def _sealed(body: bytes) -> bytes:
    return MAGIC + hashlib.sha256(body).digest() + body


def test_loaded_portfolio_reports_and_forecasts_the_same(
    portfolio: FittedPortfolio, artefact: bytes
) -> None:
    loaded = loads(artefact)
    features = make_runs(grid((1, 3, 16))).features

    # As text, since an error that was never measured is NaN, which equals nothing.
    assert _as_text(loaded.report) == _as_text(portfolio.report)
    np.testing.assert_array_equal(
        loaded.predict(features).interval(0.9), portfolio.predict(features).interval(0.9)
    )
    assert loaded.support(features) == portfolio.support(features)


def test_fit_of_absurd_sizes_can_be_loaded() -> None:
    sizes = (1e-90, 1e-60, 1e-9, 1e9, 1e90)
    rows = grid((4,), sizes, ("V100",))
    seconds = np.full(len(rows), 7.0)

    artefact = dumps(fit(RunTable(make_features(rows), seconds, [str(size) for size in sizes])))

    assert dumps(loads(artefact)) == artefact


@settings(max_examples=60)
@given(st.data())
def test_any_altered_byte_is_refused(artefact: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(artefact) - 1))
    altered = bytearray(artefact)
    altered[position] ^= data.draw(st.integers(1, 255))

    with pytest.raises(ArtifactError):
        loads(bytes(altered))


@settings(max_examples=30)
@given(st.floats(0, 0.999999))
def test_any_truncation_is_refused(artefact: bytes, share: float) -> None:
    with pytest.raises(ArtifactError):
        loads(artefact[: int(share * len(artefact))])


@settings(max_examples=30)
@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    for hostile in (data, MAGIC + data, _sealed(data)):
        with pytest.raises(ArtifactError):
            loads(hostile)


def test_what_members_have_in_common_is_held_once(artefact: bytes) -> None:
    portfolio = loads(artefact)

    members = portfolio.members
    process, held = members["scaling_process"], members["held_process"]
    assert isinstance(process, GaussianProcess)
    assert isinstance(held, GaussianProcess)
    assert process.X_ is held.X_
    assert process.law_.laws_[0] is held.law_.laws_[0]
    assert not process.X_.flags.writeable


def test_other_format_version_is_refused_with_advice(artefact: bytes) -> None:
    def change(header: dict[str, Any]) -> None:
        header["format_version"] = 99

    with pytest.raises(ArtifactError, match=f"format 99, not {FORMAT_VERSION}; fit the workload"):
        loads(_forge(artefact, change))


def _absurd_shape(header: dict[str, Any]) -> None:
    header["arrays"][0][1] = [2**62, 2**62]


def _negative_shape(header: dict[str, Any]) -> None:
    header["arrays"][0][1] = [-1]


def _fewer_numbers(header: dict[str, Any]) -> None:
    header["arrays"] = header["arrays"][:-1]


def _unknown_member(header: dict[str, Any]) -> None:
    header["member_order"][0] = "oracle"


def _no_encoder(header: dict[str, Any]) -> None:
    del header["encoder"]


def _words_for_numbers(header: dict[str, Any]) -> None:
    header["center"] = "noon"


def _jitter_without_noise(header: dict[str, Any]) -> None:
    header["jitter"] = {"relative_variance": 0.0, "log_seconds": 0.0, "usual_variance": 0.0}


def _jitter_of_ages(header: dict[str, Any]) -> None:
    header["jitter"] = {"relative_variance": 0.0, "log_seconds": 1e9, "usual_variance": 1.0}


def _lost_category(header: dict[str, Any]) -> None:
    header["few_levels"] = []


def _lost_configuration(header: dict[str, Any]) -> None:
    places = {name: index for index, (name, _) in enumerate(header["arrays"])}
    lengths, counts = (places[f"memory.name_{each}"] for each in ("lengths", "counts"))
    header["arrays"][counts][1][0] -= 1
    header["arrays"][lengths][1][0] += 1


def _missing_weights(header: dict[str, Any]) -> None:
    header["member_order"] = header["member_order"][1:]


def _unknown_template(header: dict[str, Any]) -> None:
    for member in header["members"].values():
        for name in member:
            if name.endswith("templates"):
                member[name] = ["perpetual motion"]


@pytest.mark.parametrize(
    "change",
    [
        _absurd_shape,
        _negative_shape,
        _fewer_numbers,
        _unknown_member,
        _no_encoder,
        _words_for_numbers,
        _jitter_without_noise,
        _jitter_of_ages,
        _lost_category,
        _lost_configuration,
        _missing_weights,
        _unknown_template,
    ],
)
def test_forged_header_is_refused(
    artefact: bytes, change: Callable[[dict[str, Any]], None]
) -> None:
    with pytest.raises(ArtifactError):
        loads(_forge(artefact, change))


@pytest.mark.parametrize("place", [0, 1, -1])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_number_that_is_not_finite_is_refused(artefact: bytes, place: int, number: float) -> None:
    block = Artefact(artefact).block()
    block[place] = number

    with pytest.raises(ArtifactError, match="not finite"):
        loads(Artefact(artefact).with_block(block))


def test_serving_trees_imports_neither_lightgbm_nor_scikit_learn() -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    artefact = dumps(fit(runs, regressors=["boosted_trees", "residual_trees"]))
    program = """
import sys
import numpy as np
from models import FeatureTable, loads
portfolio = loads(sys.stdin.buffer.read())
forecast = portfolio.predict(FeatureTable({"workers": np.array([4.0, 32.0])}, {}, 2))
assert forecast.interval(0.9)[0].shape == (2,)
heavy = {"lightgbm", "sklearn", "pandas", "scipy"} & set(sys.modules)
assert not heavy, heavy
"""

    done = subprocess.run(
        [sys.executable, "-c", program], input=artefact, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr.decode()
