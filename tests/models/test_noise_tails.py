"""Runs that are often slower than usual: bounds and time limits hold them, once repetitions do."""

import numpy as np
import pytest

from models import ArtifactError, FittedPortfolio, dumps, fit_portfolio, loads
from models.runs.noise_tails import NoiseTails
from models.tables import FeatureTable, FloatArray, RunTable
from tests.models.forging import Artefact
from tests.models.workloads import make_features

Row = dict[str, float | str]
SLOWER = 1.6


def _rows(workers: tuple[float, ...], sizes: tuple[float, ...], repetitions: int) -> list[Row]:
    return [
        {"workers": count, "dataset_size": size}
        for count in workers
        for size in sizes
        for _ in range(repetitions)
    ]


def _runs(rows: list[Row], share: float, seed: int) -> tuple[FeatureTable, FloatArray]:
    generator = np.random.default_rng(seed)
    features = make_features(rows)
    plain = 3 + features.numeric["dataset_size"] / 50 / features.numeric["workers"]
    slow = np.where(generator.random(len(rows)) < share, SLOWER, 1.0)
    return features, plain * slow * np.exp(generator.normal(0, 0.03, len(rows)))


def _fit(repetitions: int, share: float) -> FittedPortfolio:
    rows = _rows((1, 2, 4, 8), (1e3, 2e3, 4e3, 8e3), repetitions)
    features, seconds = _runs(rows, share, seed=1)
    runs = RunTable(features, seconds, [f"{place:04}" for place in range(len(rows))])
    return fit_portfolio(runs, seed=0, time_budget_s=20)


@pytest.mark.parametrize("share", [0.1, 0.3])
@pytest.mark.parametrize(
    "asked", [((1, 2, 4, 8), (1e3, 2e3, 4e3, 8e3)), ((3, 6), (1.5e3, 3e3, 6e3))]
)
def test_limits_are_kept_where_some_runs_take_half_as_long_again(
    share: float, asked: tuple[tuple[float, ...], tuple[float, ...]]
) -> None:
    portfolio = _fit(6, share)

    features, seconds = _runs(_rows(*asked, 60), share, seed=2)
    forecast = portfolio.predict(features)

    lower, upper = forecast.interval(0.9)
    assert ((lower <= seconds) & (seconds <= upper)).mean() > 0.87
    assert (seconds <= forecast.quantile(0.95)).mean() > 0.9
    # What is slow is not fast as well.
    assert (upper / forecast.median() > forecast.median() / lower).all()


def test_normal_noise_has_no_tails() -> None:
    portfolio = _fit(6, 0.0)

    assert portfolio.noise_tails is None


def test_accident_of_one_run_is_no_tail() -> None:
    rows = _rows((1, 2, 4, 8), (1e3, 2e3, 4e3, 8e3), 4)
    features, seconds = _runs(rows, 0.0, seed=1)
    seconds[7] *= 8
    runs = RunTable(features, seconds, [f"{place:04}" for place in range(len(rows))])

    assert fit_portfolio(runs, seed=0, time_budget_s=20).noise_tails is None


def test_artefact_holds_the_tails() -> None:
    portfolio = _fit(6, 0.3)
    features, _ = _runs(_rows((3,), (3e3,), 1), 0.0, seed=0)

    restored = loads(dumps(portfolio))

    assert restored.noise_tails == portfolio.noise_tails is not None
    for one, other in zip(
        portfolio.predict(features).interval(0.9),
        restored.predict(features).interval(0.9),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_tails_widen_what_is_narrower_alone() -> None:
    tails = NoiseTails((0.1, 0.2, 0.3, 0.4, 0.5), (0.2, 0.4, 0.6, 0.8, 1.0))
    narrow = np.array([[0.5, 1.0, 1.3, 1.6, 2.0]])
    wide = 10 * narrow

    below, above = tails.widened(np.array([10.0]), narrow, None)
    same, both = tails.widened(np.array([10.0]), wide, wide)

    np.testing.assert_allclose(below, [[1.0, 2.0, 3.0, 4.0, 5.0]])
    np.testing.assert_allclose(above, [[2.0, 4.0, 6.0, 8.0, 10.0]])
    np.testing.assert_array_equal(same, wide)
    np.testing.assert_array_equal(both, wide)


@pytest.mark.parametrize(
    "told",
    [
        {"below": [0.1] * 5, "above": [0.1, 0.2, 0.3, 0.4, 0.5]},
        {"below": [0.1, 0.2, 0.3, 0.4], "above": [0.1, 0.2, 0.3, 0.4]},
        {"below": [0.0, 0.2, 0.3, 0.4, 0.5], "above": [0.1, 0.2, 0.3, 0.4, 0.5]},
        {"below": [0.1, 0.2, 0.3, 0.4, 0.5], "above": [0.1, 0.2, 0.3, 0.4, 1e9]},
        {"below": [0.1, 0.2, 0.3, 0.4, 0.5]},
        "none",
    ],
)
def test_tails_of_an_artefact_that_are_none_are_refused(told: object) -> None:
    artefact = Artefact(dumps(_fit(2, 0.0)))

    with pytest.raises(ArtifactError):
        loads(artefact.with_header({**artefact.header(), "noise_tails": told}))
