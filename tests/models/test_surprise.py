"""Few runs that the fit did not expect widen the intervals of every kind of question."""

import numpy as np
import pytest

from models import FeatureTable, FittedPortfolio, FloatArray, RunTable, fit_portfolio
from models.calibration.intervals import calibrate, prior_curve, surprise_factor
from models.questions.regimes import Kind

ROWS = [(w, d) for w in (1.0, 2.0, 4.0) for d in (1e3, 3e3, 9e3)]


def fit_rows(step: float) -> FittedPortfolio:
    """Fit nine runs; where workers times size is above a threshold they take `step` times."""
    workers, size = (np.array(column) for column in zip(*ROWS, strict=True))
    seconds = 20 + size / workers * np.where(size / workers > 2e3, step, 1.0)
    seconds *= np.exp(np.random.default_rng(1).normal(0, 0.02, len(ROWS)))
    table = FeatureTable({"workers": workers, "dataset_size": size}, {}, len(ROWS))
    names = [f"run_{row}" for row in range(len(ROWS))]
    return fit_portfolio(RunTable(table, seconds, names), seed=0, time_budget_s=30)


def half_width(portfolio: FittedPortfolio, axis: str) -> float:
    """Return the half width at 90 % in predicted deviations, relative to the prior one."""
    curve = portfolio.regimes[axis].curve
    prior = prior_curve(portfolio.regime_map.kinds[axis], len(ROWS))
    return float(curve[2] / prior[2])


@pytest.mark.parametrize("axis", ["workers", "dataset_size"])
def test_a_cliff_inside_the_range_widens_what_lies_beyond_it(axis: str) -> None:
    smooth, cliff = fit_rows(1.0), fit_rows(6.0)

    assert half_width(cliff, axis) > 1.2 * half_width(smooth, axis)


def test_what_was_expected_leaves_the_prior_alone() -> None:
    scores = np.array([0.3, 0.9, 1.1, 0.2])

    assert surprise_factor(scores, np.ones(4), 4) == 1.0


def test_more_surprises_weigh_more_and_none_without_bound() -> None:
    few, many = (surprise_factor(np.full(n, 2.0), np.ones(n), n) for n in (4, 11))

    assert 1 < few < many < 2
    assert surprise_factor(np.full(11, 1e6), np.ones(11), 11) < 6


def test_what_few_runs_showed_fades_with_more() -> None:
    widened = [
        prior_curve("transfer", n, surprise=2.0)[2] / prior_curve("transfer", n)[2]
        for n in (8, 12, 24, 240)
    ]

    assert widened[0] == widened[1] == pytest.approx(2.0)
    assert widened[1] > widened[2] > widened[3] > 1
    assert widened[3] < 1.1


def test_more_runs_of_other_levels_tell_little_of_one_without_runs() -> None:
    few, many = (prior_curve("new_level", n)[2] for n in (6, 600))
    other_few, other_many = (prior_curve("transfer", n)[2] for n in (6, 600))

    assert 1 < few / many < 1.2
    assert few / many < other_few / other_many


def _calibrated(score: float, n: int, kind: Kind = "interpolation", few: int = 0) -> FloatArray:
    """Return half widths relative to the prior ones, after n held-out scores."""
    n_configurations = few or 40
    prior = prior_curve(kind, n_configurations)
    scores, weights = np.full(n, score), np.ones(n)
    return (
        calibrate(
            scores, weights, prior, kind=kind, n_configurations=n_configurations, n_distinct=n
        )
        / prior
    )


def test_held_out_scores_count_against_the_prior_by_their_number() -> None:
    prior = prior_curve("interpolation", 40)

    relative = _calibrated(2.0, 30)

    expected = 1.1 * (2.0 / prior) ** (30 / 40)
    assert relative[:4] == pytest.approx(expected[:4])
    # No 30 scores tell the 99 % quantile: it follows from that at 95 %, as in the prior.
    assert relative[4] == pytest.approx(relative[3])


def test_fewer_than_five_scores_leave_the_prior_as_it_is() -> None:
    assert _calibrated(3.0, 4).tolist() == [1.0] * 5
    assert (_calibrated(3.0, 5)[:3] > 1.0).all()


@pytest.mark.parametrize(("kind", "few"), [("extrapolation", 0), ("interpolation", 11)])
def test_small_scores_narrow_nothing_outside_the_range_or_with_few_runs(
    kind: Kind, few: int
) -> None:
    assert _calibrated(0.1, 11, kind, few).tolist() == [1.0] * 5
    assert (_calibrated(0.1, 30)[:4] < 0.8).all()


def test_pool_narrows_what_few_configurations_leave_open_but_no_axis() -> None:
    for n in (1, 4, 11):
        alone, pooled = (prior_curve("transfer", n, is_pooled=pooled) for pooled in (False, True))
        assert (pooled < alone).all()
    known: list[tuple[Kind, int]] = [("extrapolation", 4), ("new_level", 4), ("transfer", 12)]
    for kind, n in known:
        alone, pooled = (prior_curve(kind, n, is_pooled=pooled) for pooled in (False, True))
        assert pooled.tolist() == alone.tolist()


def test_quantile_of_few_scores_is_taken_above_its_level() -> None:
    # 27 of 30 scores are 90 % of them, but a new one is among 31: .9 (1 + 1 / 30) needs 28.
    scores, ones = np.repeat([1.0, 4.0], [27, 3]), np.ones(30)

    widths = calibrate(
        scores, ones, np.ones(5), kind="interpolation", n_configurations=30, n_distinct=30
    )

    assert widths[:3] == pytest.approx([1.1, 1.1 * 1.01, 1.1 * 4 ** (30 / 40)])


@pytest.mark.parametrize(("n", "wider"), [(6, 1.2 / 0.95), (10**9, 1.75 / 1.5)])
def test_two_values_of_an_axis_without_known_exponent_widen_more(n: int, wider: float) -> None:
    known = [prior_curve("short_axis", n, axis=axis) for axis in ("workers", "epochs")]
    unknown = [prior_curve("short_axis", n, axis=axis) for axis in ("dataset_size", "param.depth")]

    assert known[0].tolist() == known[1].tolist()
    assert unknown[0].tolist() == unknown[1].tolist()
    assert unknown[0] / known[0] == pytest.approx(wider)
