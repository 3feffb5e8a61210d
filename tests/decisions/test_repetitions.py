"""What repetitions let expect: calibrated, sharper than the forecast, and no jump at the start."""

import numpy as np
import pytest

from app.decisions.repetitions import repetitions

NOISE = 0.03


def simulated_failures(*, error: float, histories: int, given: float | None) -> float:
    """Return how often a run without a change is less likely than 1 in 100."""
    rng = np.random.default_rng(1)
    scale, failed = float(np.hypot(NOISE, error)), []
    for _ in range(histories):
        errors, groups = rng.normal(0.0, error, 12), rng.integers(0, 12, 30)
        seen = repetitions([scale], given)
        for group in groups.tolist():
            seen.learn(errors[group] + rng.normal(0.0, NOISE), scale, group)
        group = int(rng.choice(groups))
        ratio = errors[group] + rng.normal(0.0, NOISE)
        failed.append(seen.expect(scale, group).probability_above(ratio) < 0.01)
    return float(np.mean(failed))


@pytest.mark.parametrize(("error", "given"), [(0.02, NOISE), (0.05, NOISE), (0.05, None)])
def test_a_run_without_a_change_is_rare_as_often_as_stated(
    error: float, given: float | None
) -> None:
    share = simulated_failures(error=error, histories=4000, given=given)

    assert 0.003 <= share <= 0.015


def test_noise_that_nobody_knows_is_learned_within_a_history() -> None:
    share = simulated_failures(error=0.02, histories=4000, given=None)

    # Half of the forecast's deviation stands for it at first; here that is three fifths of it.
    assert share <= 0.025


def test_a_repeated_configuration_is_expected_closer_than_the_forecast() -> None:
    seen = repetitions([0.1], NOISE)
    rng = np.random.default_rng(2)
    for ratio in 0.08 + rng.normal(0.0, NOISE, 20):
        seen.learn(float(ratio), 0.1, 0)

    repeated, unseen = seen.expect(0.1, 0), seen.expect(0.1, 1)

    assert repeated.mean == pytest.approx(0.08, abs=0.02)
    assert repeated.deviation < 0.5 * unseen.deviation
    assert unseen.deviation == pytest.approx(0.1, rel=0.05)
    assert (unseen.mean, unseen.runs, repeated.runs) == (0.0, 0, 20)


def test_runs_of_the_fit_do_not_count_twice() -> None:
    seen = repetitions([0.05], NOISE)
    for ratio in (0.01, -0.02, 0.03, 0.0):
        seen.learn(ratio, 0.05, 0)
    before = seen.expect(0.05, 0)

    seen.count_once()

    after = seen.expect(0.05, 0)
    assert after.mean == before.mean
    assert before.deviation < after.deviation < 0.05
    assert after.deviation == pytest.approx((seen.variance * 1.25) ** 0.5)


def test_a_run_that_is_not_normal_tells_of_the_noise_alone() -> None:
    seen = repetitions([0.05], NOISE)
    for ratio in (0.01, -0.02, 0.03):
        seen.learn(ratio, 0.05, 0)
    before, noise = seen.expect(0.05, 0), seen.variance

    seen.learn(0.2, 0.05, 0, is_normal=False)

    assert seen.expect(0.05, 0).mean == before.mean
    assert seen.expect(0.05, 0).runs == before.runs
    assert seen.variance > noise


def test_the_quantile_has_its_probability() -> None:
    expected = repetitions([0.1], NOISE).expect(0.1, 0)

    assert expected.probability_above(expected.quantile(0.95)) == pytest.approx(0.05)
