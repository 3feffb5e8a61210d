"""The simulated trainings are what they say, and the scores are right."""

import numpy as np
import pytest

from benchmarks.feasibility.__main__ import JUDGES, Result, judge_world, scores_of, table_of
from benchmarks.feasibility.worlds import KINDS, World


@pytest.mark.parametrize("kind", list(KINDS))
def test_some_configurations_of_each_training_fit_and_some_do_not(kind: str) -> None:
    for seed in range(5):
        runs = World(kind, seed).runs(1000, seed=seed)

        assert 0.15 < runs.is_out.mean() < 0.65
        peaks = runs.evidence(measured=True).peak_bytes
        assert np.isnan(peaks[runs.is_out]).all()
        assert np.isfinite(peaks[~runs.is_out]).all()
        assert np.isnan(runs.evidence(measured=False).peak_bytes).all()


def test_more_workers_hold_less_of_a_sharded_training_alone() -> None:
    for kind in ("transformer", "sharded"):
        runs = World(kind, seed=1).runs(4000, seed=1)
        numeric = runs.features.numeric
        small = numeric["batch_size"] == numeric["workers"]
        one, many = (runs.peak_bytes[small & (numeric["workers"] == n)].mean() for n in (1, 16))

        assert (one > 2 * many) == (kind == "sharded")


def test_each_judge_is_asked_and_listed() -> None:
    results = judge_world("sharded", 8, measured=True, seed=0)

    assert [result.judge for result in results] == list(JUDGES)
    assert all(((result.chances >= 0) & (result.chances <= 1)).all() for result in results)
    # A row for the kind of training, and one for all kinds.
    assert table_of(results).row_count == 2 * len(JUDGES)


def test_scores_count_what_came_of_what_was_said() -> None:
    chances, fits = np.array([0.95, 0.95, 0.6, 0.02]), np.array([1.0, 0.0, 0.0, 0.0])
    said = Result("", 4, measured=False, judge="", chances=chances, fits=fits, seconds=0.0)

    right, brier, loss, fitted, sure, ran_out = scores_of([said])

    assert right == 0.5
    assert brier == pytest.approx((0.05**2 + 0.95**2 + 0.6**2 + 0.02**2) / 4)
    assert loss == pytest.approx(-np.log([0.95, 0.05, 0.4, 0.98]).mean())
    assert (fitted, sure, ran_out) == (0.5, 0.75, 1.0)
