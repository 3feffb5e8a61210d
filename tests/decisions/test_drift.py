"""The drift alarm: silent without a change, quick with one, whatever the regressor's error."""

import numpy as np
import pytest

from app.decisions.drift import DriftChart, chart, score_runs, thresholds_for
from app.decisions.repetitions import Cell

THRESHOLDS = thresholds_for(0.005, 2000)


def follow(
    rng: np.random.Generator,
    *,
    runs: int,
    shift: float = 1.0,
    shift_at: int = 0,
    configurations: int = 6,
    noise: float = 0.03,
    error: float = 0.03,
    admitted: float | None = None,
    slower_only: bool = False,
    is_blocked: bool = False,
) -> DriftChart:
    """Chart simulated runs of a regressor with an error of its own for each configuration."""
    errors = rng.normal(0.0, error, configurations)
    groups = rng.integers(0, configurations, runs)
    groups = np.sort(groups) if is_blocked else groups
    ratios = errors[groups] + rng.normal(0.0, noise, runs)
    ratios[shift_at:] += np.log(shift)
    scale = float(admitted or np.hypot(noise, error))
    scores = score_runs(ratios, [Cell(group, scale) for group in groups.tolist()], None)
    return chart(scores, THRESHOLDS, slower_only=slower_only)


@pytest.mark.slow
@pytest.mark.parametrize("is_blocked", [False, True])
@pytest.mark.parametrize("configurations", [1, 6, 40])
def test_two_thousand_runs_without_a_change_raise_it_in_one_history_of_a_hundred(
    configurations: int,
    is_blocked: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    rng = np.random.default_rng(1)

    alarms = [
        follow(rng, runs=2000, configurations=configurations, is_blocked=is_blocked).has_alarm
        for _ in range(200)
    ]

    # Binomial: with 1 in 100 there are more than 6 of 200 in 0.4 % of all simulations.
    assert np.sum(alarms) <= 6


@pytest.mark.parametrize("shift", [1.15, 0.85])
def test_a_shift_is_found_within_twenty_runs(shift: float) -> None:
    rng = np.random.default_rng(2)

    signals = [follow(rng, runs=100, shift=shift, shift_at=60) for _ in range(100)]

    alarms = [signal.first_alarm for signal in signals if signal.first_alarm is not None]
    assert len(alarms) == len(signals)
    assert np.mean([60 <= alarm < 80 for alarm in alarms]) >= 0.95
    assert np.mean([signal.start == 60 for signal in signals]) >= 0.9
    assert np.median([signal.change_ratio for signal in signals]) == pytest.approx(shift, rel=0.03)


def test_a_shift_before_the_first_run_is_found_by_the_level() -> None:
    rng = np.random.default_rng(3)

    signals = [follow(rng, runs=20, shift=1.3, configurations=1) for _ in range(50)]

    assert all(signal.has_alarm for signal in signals)
    assert {signal.start for signal in signals} == {0}


def test_a_regressor_that_is_wrong_everywhere_is_no_drift() -> None:
    rng = np.random.default_rng(4)

    signals = [follow(rng, runs=500, error=0.1, admitted=0.11) for _ in range(30)]

    assert not any(signal.has_alarm for signal in signals)


def test_runs_that_were_fitted_on_tell_levels_and_are_not_charted() -> None:
    rng = np.random.default_rng(7)
    ratios, cells = rng.normal(0.0, 0.03, 60), [Cell(0, 0.2), Cell(1, 0.2)] * 30
    ratios[1::2] += 0.2

    scores = score_runs(ratios, cells, 0.03, learned=40)

    assert len(scores.log_ratios) == len(scores.innovations) == 20
    assert np.abs(scores.innovations).max() < 3.5


def test_faster_runs_are_no_alarm_where_only_slower_ones_count() -> None:
    rng = np.random.default_rng(5)

    assert not follow(rng, runs=100, shift=0.8, shift_at=50, slower_only=True).has_alarm


def test_one_accident_is_no_drift() -> None:
    rng = np.random.default_rng(6)
    ratios = rng.normal(0.0, 0.03, 200)
    ratios[100] += 1.5

    signal = chart(score_runs(ratios, [Cell(0, 0.04)] * 200, 0.03), THRESHOLDS)

    assert not signal.has_alarm


def test_no_runs_are_no_drift() -> None:
    signal = chart(score_runs(np.empty(0), [], None), THRESHOLDS)

    assert (signal.has_alarm, signal.change_ratio, signal.statistic) == (False, 1.0, 0.0)


def test_a_rarer_false_alarm_needs_a_higher_threshold() -> None:
    thresholds = [thresholds_for(chance, 2000) for chance in (0.2, 0.05, 0.01, 0.001)]

    sums, levels = (
        [threshold.sums for threshold in thresholds],
        [threshold.level for threshold in thresholds],
    )
    assert sums == sorted(sums)
    assert levels == sorted(levels)
    assert thresholds_for(0.999999, 1).sums == 1.0


@pytest.mark.parametrize(
    ("probability", "runs", "sides"), [(0.05, 2, 1), (0.2, 10, 2), (0.02, 2000, 2)]
)
def test_thresholds_of_sums_solve_siegmunds_approximation(
    probability: float, runs: int, sides: int
) -> None:
    sums = thresholds_for(probability, runs, sides=sides).sums

    # Nine tenths of the probability are for sums; the run length is exponential, k is a half.
    exponent = sums + 1.166
    run_length = 2.0 * (np.exp(exponent) - exponent - 1.0)
    chance = -np.expm1(-sides * runs / run_length)
    assert chance == pytest.approx(0.9 * probability, rel=1e-6)


def test_one_accident_among_few_runs_is_no_drift() -> None:
    ratios = np.array([0.01, 1.4, -0.01, 0.0, 0.02, -0.02])

    signal = chart(score_runs(ratios, [Cell(0, 0.04)] * 6, 0.03), THRESHOLDS, slower_only=True)

    assert not signal.has_alarm


def test_alarm_ends_when_the_runs_since_are_as_before() -> None:
    rng = np.random.default_rng(8)
    ratios, cells = rng.normal(0.0, 0.03, 80), [Cell(0, 0.04), Cell(1, 0.04)] * 40
    ratios[40:48] += 0.3
    scores = score_runs(ratios, cells, 0.03)
    during = score_runs(ratios[:48], cells[:48], 0.03)

    raised = chart(during, THRESHOLDS, slower_only=True)
    later = chart(scores, THRESHOLDS, slower_only=True)

    assert (raised.has_alarm, raised.start) == (True, 40)
    assert raised.change_ratio == pytest.approx(np.exp(0.3), rel=0.05)
    assert not later.has_alarm


def test_change_of_one_configuration_is_told_for_it_alone() -> None:
    rng = np.random.default_rng(9)
    ratios, cells = rng.normal(-0.01, 0.005, 40), [Cell(0, 0.04), Cell(1, 0.04)] * 20
    ratios[1::2] += 0.4

    signal = chart(score_runs(ratios, cells, 0.03), THRESHOLDS)

    assert (signal.has_alarm, signal.start) == (True, 1)
    assert signal.change_ratio == pytest.approx(np.exp(0.39), rel=0.02)


def test_change_is_told_against_the_same_configuration() -> None:
    rng = np.random.default_rng(10)
    errors = np.array([0.0, 0.5])
    groups = np.array([0] * 30 + [0, 1] * 15 + [1, 0, 0] * 6)
    ratios = errors[groups] + rng.normal(0.0, 0.01, len(groups))
    ratios[60:] += 0.2
    cells = [Cell(group, 0.5) for group in groups.tolist()]

    signal = chart(score_runs(ratios, cells, 0.01), THRESHOLDS)

    assert (signal.has_alarm, signal.start) == (True, 60)
    assert signal.change_ratio == pytest.approx(np.exp(0.2), rel=0.02)
