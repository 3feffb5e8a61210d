"""How the members' weights follow what was held out."""

from dataclasses import replace

import numpy as np
import pytest

from models.calibration.intervals import tempered
from models.features.layout import Layout
from models.laws.scaling_laws import LogLinearLaw
from models.questions.regimes import Fold, Kind
from models.selection.holdout import (
    FoldForecast,
    TrainingData,
    forecast_fold,
    gather,
    trend_break,
)
from models.selection.weights import HeldOut, choose_weights, prior_weights, stack
from models.state.checks import MAX_LOG

NAMES = ["log_linear", "gaussian_process", "physics_process"]


def held_out(n_distinct: int) -> HeldOut:
    """Return held-out forecasts of which the first member's are exact and the others' are not."""
    observed = np.linspace(0.0, 1.0, n_distinct)
    means = np.stack([observed, observed + 0.5, observed - 0.3])
    none = np.zeros(n_distinct)
    return HeldOut(
        np.arange(n_distinct),
        np.ones(n_distinct),
        observed,
        means,
        np.full(means.shape, 0.01),
        none,
        none,
    )


def test_weights_follow_the_member_that_forecast_the_held_out_set_well() -> None:
    weights = choose_weights(
        NAMES, "extrapolation", "workers", n_configurations=30, held_out=held_out(20), inside=None
    )

    assert weights[0] > 0.9
    assert weights.sum() == pytest.approx(1.0)


def test_means_of_repetitions_score_as_the_runs_that_they_stand_for() -> None:
    exact, variance = held_out(20), 0.01
    alone = np.array([1.0, 0.0, 0.0])

    scores, shares = replace(exact, averaged=np.full(20, variance)).scores(alone)
    plain, _ = exact.scores(alone)
    beside, _ = replace(exact, means=exact.means + 0.1, averaged=np.full(20, -0.03)).scores(alone)

    # A run lies a deviation of its noise from an exact forecast, 1.645 at most in nine of ten.
    assert shares.sum() == pytest.approx(exact.weights.sum())
    deviation = np.sqrt(shares @ scores**2 / shares.sum())
    assert deviation == pytest.approx(0.1 / tempered(0.1))
    assert np.quantile(scores, 0.9) == pytest.approx(1.645 * deviation, rel=0.04)
    np.testing.assert_allclose(plain, 0.0)
    np.testing.assert_allclose(beside, 0.1 / tempered(0.2))


@pytest.mark.parametrize(
    ("kind", "n_configurations", "n_held_out"),
    [("extrapolation", 30, 2), ("extrapolation", 11, 2), ("transfer", 11, 8)],
)
def test_held_out_sets_that_say_little_leave_the_prior_weights(
    kind: Kind, n_configurations: int, n_held_out: int
) -> None:
    weights = choose_weights(
        NAMES,
        kind,
        "workers",
        n_configurations=n_configurations,
        held_out=held_out(n_held_out),
        inside=None,
    )

    expected = prior_weights(NAMES, kind, "workers", n_configurations)
    np.testing.assert_allclose(weights, expected)


def test_few_configurations_refute_a_member_and_tell_no_good_one_from_another() -> None:
    inside = held_out(8)
    good = replace(inside, means=inside.observed + np.array([[0.1], [0.1], [0.05]]))
    bad = replace(inside, means=inside.observed + np.array([[3.0], [0.1], [0.05]]))
    expected = prior_weights(NAMES, "extrapolation", "workers", 8)

    kept = choose_weights(
        NAMES, "extrapolation", "workers", n_configurations=8, held_out=None, inside=good
    )
    moved = choose_weights(
        NAMES, "extrapolation", "workers", n_configurations=8, held_out=None, inside=bad
    )

    np.testing.assert_allclose(kept, expected)
    assert moved[0] < 0.01
    np.testing.assert_allclose(moved[1] / moved[2], expected[1] / expected[2])
    enough = choose_weights(
        NAMES, "extrapolation", "workers", n_configurations=12, held_out=None, inside=bad
    )
    np.testing.assert_allclose(enough, prior_weights(NAMES, "extrapolation", "workers", 12))


def test_few_configurations_refute_a_member_beyond_the_axis_that_is_asked() -> None:
    beyond = held_out(4)
    bad = replace(beyond, means=beyond.observed + np.array([[0.3], [0.02], [0.01]]))
    good = replace(beyond, means=beyond.observed + np.array([[0.02], [0.02], [0.01]]))
    expected = prior_weights(NAMES, "extrapolation", "workers", 8)

    moved = choose_weights(
        NAMES, "extrapolation", "workers", n_configurations=8, held_out=bad, inside=good
    )

    assert moved[0] < expected[0] / 5
    np.testing.assert_allclose(moved[1] / moved[2], expected[1] / expected[2])
    kept = choose_weights(
        NAMES, "extrapolation", "workers", n_configurations=8, held_out=good, inside=good
    )
    np.testing.assert_allclose(kept, expected)


def test_member_that_errs_less_gains_weight_in_transfer_but_the_prior_is_kept_by_half() -> None:
    tested = held_out(20)
    last_is_exact = replace(tested, means=tested.means[[0, 1, 0]])

    weights = choose_weights(
        NAMES, "transfer", "gpu_type", n_configurations=30, held_out=last_is_exact, inside=None
    )

    prior = prior_weights(NAMES, "transfer", "gpu_type", 30)
    assert prior[0] == 0
    assert weights[0] == 0
    assert weights[2] > prior[2]
    assert weights[1] == pytest.approx(prior[1] / 2, rel=0.01)


@pytest.mark.parametrize("n_configurations", [6, 30])
def test_single_law_counts_more_than_sums_beyond_the_workers_range(n_configurations: int) -> None:
    names = [*NAMES, "scaling_law", "scaling_process", "held_process"]

    weights = prior_weights(names, "extrapolation", "workers", n_configurations)

    assert weights[:2].sum() > 0.5
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("axis", "n_configurations", "share"),
    [("nodes", 12, 0.5), ("batch_size", 12, 0.2), ("dataset_size", 12, 0.0), ("nodes", 11, 0.5)],
)
def test_physics_has_half_of_the_weights_beyond_axes_whose_exponents_it_pins(
    axis: str, n_configurations: int, share: float
) -> None:
    names = ["physics_process", "scaling_law", "gaussian_process", "scaling_process"]
    names += ["held_process", "log_linear", "boosted_trees"]

    weights = prior_weights(names, "extrapolation", axis, n_configurations)

    # The Gaussian process takes 60 % beyond the batch size, and leaves the others the rest.
    assert weights[:2].sum() == pytest.approx(share)
    assert weights[0] == pytest.approx(1.5 * weights[1])


def test_residual_variance_of_a_wild_forecast_is_one_that_an_artefact_may_hold() -> None:
    sane = held_out(4)
    wild = replace(sane, means=sane.means + np.array([[0.0], [40.0], [np.nan]]))

    variances = wild.residual_variances()

    assert variances[0] == 0
    assert variances[1] == MAX_LOG
    assert np.isnan(variances[2])


@pytest.mark.parametrize("error", [0.01, 1.0])
def test_stacked_members_cancel_errors_of_opposite_signs(error: float) -> None:
    exact, prior = held_out(200), np.array([0.5, 0.5])
    means = exact.observed + np.array([[3 * error], [-error]])
    opposite = replace(exact, means=means, variances=exact.variances[:2])

    weights = stack(opposite, prior)

    assert weights == pytest.approx([0.25, 0.75], abs=0.01)


def training_data(relevance: float = 1.0) -> tuple[TrainingData, Fold]:
    """Return 20 configurations, and a fold of which the first, a middle and the last are held out.

    Their workers are 2^-4, 2^5 and 2^15 times those of the median, the others' 2^-3 to 2^14.
    """
    X = np.column_stack([np.log(2.0) * np.arange(-4.0, 16.0), np.zeros(20)])
    layout = Layout(("workers",), (), (), relevance=(relevance,))
    y = -0.8 * X[:, 0] + 0.01 * np.resize([1.0, -1.0, 0.5], 20)
    data = TrainingData(layout, X, y, np.ones(20), np.zeros(20), None, ())
    test = np.array([0, 9, 19])
    return data, Fold("workers", np.setdiff1d(np.arange(20), test), test)


def test_fold_is_forecast_as_by_a_refit_without_it() -> None:
    data, fold = training_data()
    law = LogLinearLaw(data.layout).fit(data.X, data.y)

    forecast = forecast_fold(data, {"log_linear": law}, fold)

    refit = law.refit_clone().fit(data.X[fold.train], data.y[fold.train])
    mean, variance = refit.predict_moments(data.X[fold.test])
    assert variance is not None
    assert forecast.means.tolist() == [mean.tolist()]
    assert forecast.variances.tolist() == [variance.tolist()]
    assert gather(data, [forecast])["workers"].variances.tolist() == [variance.tolist()]


def test_folds_of_an_axis_count_the_same_and_in_interpolation_all_configurations_do() -> None:
    data, fold = training_data()

    def weights_of(regime: str) -> list[float]:
        folds = [Fold(regime, fold.train, test) for test in (fold.test, np.array([3]))]
        answers = [np.zeros((2, len(each.test))) for each in folds]
        forecasts = [FoldForecast(*each, each[1]) for each in zip(folds, answers, strict=True)]
        held_out = gather(data, forecasts)[regime]
        shares: list[float] = (held_out.weights / held_out.weights.sum()).tolist()
        return shares

    assert weights_of("workers") == pytest.approx([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    assert weights_of("interpolation") == pytest.approx([1 / 4] * 4)


def test_held_out_set_needs_one_member_that_forecast_all_of_its_folds() -> None:
    data, fold = training_data()
    variances = np.ones((2, 3))
    some = FoldForecast(fold, np.array([[0.0, 0.0, 0.0], [np.nan, np.nan, np.nan]]), variances)
    others = replace(some, means=some.means[::-1])

    assert gather(data, [some, some])["workers"].has_forecast().tolist() == [True, False]
    assert gather(data, [some, others]) == {}


def test_mean_of_repetitions_lacks_the_noise_that_averaging_removed() -> None:
    data, fold = training_data()
    counts = np.ones(20)
    counts[fold.test] = [1.0, 4.0, 0.5]
    noisy = replace(data, counts=counts, noise_variances=np.full(20, 0.08))
    forecast = FoldForecast(fold, np.zeros((1, 3)), np.ones((1, 3)))

    held_out = gather(noisy, [forecast])["workers"]

    assert held_out.averaged.tolist() == pytest.approx([0.0, 0.06, -0.08])


@pytest.mark.parametrize(("relevance", "share"), [(1.0, 1.0), (0.1, 0.1), (3.0, 1.0)])
def test_trend_may_break_beyond_what_the_fold_is_trained_on_alone(
    relevance: float, share: float
) -> None:
    data, fold = training_data(relevance)

    variance = trend_break(data, fold)

    expected = (0.2 * share * np.log(2.0)) ** 2
    assert variance.tolist() == pytest.approx([expected, 0.0, expected])
