"""Fits on another processor: the same forecasts, and artefacts that either of them reads.

BLAS computes with the kernels of a plainer processor where a variable tells it to, so that its
results differ in the last digits as they do between x86-64 and ARM64.
"""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

from models import Evidence, FittedPortfolio, FloatArray, dumps, fit_portfolio, loads
from tests.models.memory_worlds import HARDWARE, make_world
from tests.models.workloads import grid, make_runs

pytestmark = pytest.mark.lengthy

_PLAINER = {"x86_64": "Nehalem", "AMD64": "Nehalem", "aarch64": "ARMV8", "arm64": "ARMV8"}
_PROGRAM = """
import sys
from pathlib import Path
from models import dumps
from tests.models.test_other_processors import fit
Path(sys.argv[1]).write_bytes(dumps(fit()))
"""


def fit() -> FittedPortfolio:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000), repetitions=2))
    evidence = Evidence(memory=make_world(50, seed=2).runs(measured=True))
    return fit_portfolio(runs, seed=0, time_budget_s=600, hardware=HARDWARE, evidence=evidence)


def _intervals(portfolio: FittedPortfolio) -> FloatArray:
    questions = make_runs(grid((1, 3, 16), (500, 3000))).features
    return np.array(portfolio.predict(questions).interval(0.9))


def _chances_to_fit(portfolio: FittedPortfolio) -> FloatArray:
    assert portfolio.memory_law is not None
    return portfolio.memory_law.feasibility(make_world(200, seed=9).features).probability


@pytest.fixture(scope="module")
def here() -> FittedPortfolio:
    return fit()


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What a process wrote that computes as a plainer processor does."""
    path = tmp_path_factory.mktemp("plainer") / "artefact"
    kernels = _PLAINER.get(platform.machine())
    if kernels is None:
        pytest.skip("no plainer kernels are known for this processor")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(path)],
        env={**os.environ, "OPENBLAS_CORETYPE": kernels},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return path.read_bytes()


def test_artefact_is_read_and_written_again_as_it_was(artefact: bytes) -> None:
    assert dumps(loads(artefact)) == artefact


def test_forecasts_agree(here: FittedPortfolio, artefact: bytes) -> None:
    np.testing.assert_allclose(_intervals(loads(artefact)), _intervals(here), rtol=1e-6)


def test_chances_to_fit_into_memory_agree(here: FittedPortfolio, artefact: bytes) -> None:
    np.testing.assert_allclose(
        _chances_to_fit(loads(artefact)), _chances_to_fit(here), rtol=0, atol=1e-6
    )
