"""The share of new runs inside their interval, by simulation with a stated tolerance."""

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.models.workloads import fit, grid, law_seconds, make_features, make_runs

if TYPE_CHECKING:
    from models import RunTable


def _covered(n_training: int, seed: int) -> float:
    generator = np.random.default_rng(seed)
    rows = grid((1, 2, 3, 4, 6, 8, 12, 16), (1000, 2000, 4000, 8000), ("V100", "K80", "T4"))
    chosen = generator.permutation(len(rows))
    training = [rows[index] for index in chosen[:n_training]]
    held_out = [rows[index] for index in chosen[n_training:]]
    forecast = fit(make_runs(training, noise=0.05, seed=seed)).predict(make_features(held_out))
    lower, upper = forecast.interval(0.9)
    truth = np.array([law_seconds(row) for row in held_out])
    observed = truth * np.exp(0.05 * generator.standard_normal(len(held_out)))
    return float(((lower <= observed) & (observed <= upper)).mean())


@pytest.mark.slow
@pytest.mark.parametrize("n_training", [6, 15, 40])
def test_nine_in_ten_new_runs_fall_inside_the_interval(n_training: int) -> None:
    shares = [_covered(n_training, seed) for seed in range(12)]

    # Twelve draws of a share near .9: three standard errors are about .06; wide is allowed.
    assert np.mean(shares) > 0.84


@pytest.mark.slow
def test_coverage_of_repetitions_follows_their_noise() -> None:
    rows = grid((1, 2, 4, 8), (1000, 2000, 4000), repetitions=5)
    portfolio = fit(make_runs(rows, noise=0.1))
    again: RunTable = make_runs(rows, noise=0.1, seed=99)

    lower, upper = portfolio.predict(again.features).interval(0.8)

    inside = (lower <= again.duration_seconds) & (again.duration_seconds <= upper)
    assert 0.7 < inside.mean() < 0.95


@pytest.mark.slow
@pytest.mark.parametrize("repetitions", [5, 20])
def test_nine_in_ten_new_runs_fall_inside_however_many_repetitions_there_are(
    repetitions: int,
) -> None:
    rows = grid((1, 2, 4, 8), (1000, 2000, 4000, 8000), ("V100", "K80"), repetitions=repetitions)
    between = grid((3, 6), (1500, 3000, 6000), ("V100", "K80"), repetitions=40)

    shares = []
    for seed in range(3):
        portfolio = fit(make_runs(rows, noise=0.15, seed=seed))
        for question_rows in (rows, between):
            again = make_runs(question_rows, noise=0.15, seed=seed + 50)
            lower, upper = portfolio.predict(again.features).interval(0.9)
            seconds = again.duration_seconds
            shares.append(float(((lower <= seconds) & (seconds <= upper)).mean()))

    assert 0.86 < np.mean(shares) < 0.96
