"""Equal runs and seed make equal artefacts: in other processes, with other threads and orders."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.lengthy

_PROGRAM = """
import hashlib, sys
import numpy as np
from models import PooledPrior, dumps, factory_summaries, fit_portfolio, summarise
from tests.models.workloads import grid, make_runs
runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
order = np.random.default_rng(int(sys.argv[1])).permutation(runs.n_runs)
prior = PooledPrior.from_summaries([summarise(runs.take(order), "other")], {}, factory_summaries())
for known in (None, prior):
    portfolio = fit_portfolio(runs.take(order), seed=3, time_budget_s=600, prior=known)
    print(hashlib.sha256(dumps(portfolio)).hexdigest())
"""


def _artefacts(threads: int, hash_seed: int, order: int) -> list[str]:
    """Return the hashes of two artefacts made in a process of its own."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    chosen = {**dict.fromkeys(names, str(threads)), "PYTHONHASHSEED": str(hash_seed)}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(order)],
        env={**os.environ, **chosen},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def expected() -> list[str]:
    return _artefacts(1, 0, 0)


@pytest.mark.parametrize(("threads", "hash_seed", "order"), [(2, 77, 5), (4, 1, 0)])
def test_artefact_is_the_same_in_every_process(
    expected: list[str], threads: int, hash_seed: int, order: int
) -> None:
    found = _artefacts(threads, hash_seed, order)

    assert found == expected
    assert len(set(found)) == 2


def test_limit_of_threads_ends_with_the_last_fit() -> None:
    program = """
import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info
from models.threads import single_thread
def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
before = threads()
with single_thread:
    with single_thread:
        assert threads() == {1}
    assert threads() == {1}
assert threads() == before, before
"""

    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        check=False,
        text=True,
    )

    assert done.returncode == 0, done.stderr
