"""What repetitions let expect: calibrated, sharper than the forecast, and no jump at the start."""

import numpy as np
import pytest
from numpy.typing import NDArray

from app.decisions.repetitions import Cell, repetitions

pytestmark = pytest.mark.lengthy

NOISE = 0.03
CELL = Cell(0, 0.05)


def simulated_failures(*, error: float, histories: int, given: float | None) -> float:
    """Return how often a run without a change is less likely than 1 in 100."""
    rng = np.random.default_rng(1)
    scale, failed = float(np.hypot(NOISE, error)), []
    for _ in range(histories):
        errors, groups = rng.normal(0.0, error, 12), rng.integers(0, 12, 30)
        cells = [Cell(group, scale) for group in groups.tolist()]
        seen = repetitions(cells, given)
        for cell in cells:
            seen.learn(errors[cell.group] + rng.normal(0.0, NOISE), cell)
        cell = cells[int(rng.integers(len(cells)))]
        ratio = errors[cell.group] + rng.normal(0.0, NOISE)
        failed.append(seen.expect(cell).probability_above(ratio) < 0.01)
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
    seen = repetitions([Cell(0, 0.1)], NOISE)
    rng = np.random.default_rng(2)
    for ratio in 0.08 + rng.normal(0.0, NOISE, 20):
        seen.learn(float(ratio), Cell(0, 0.1))

    repeated, unseen = seen.expect(Cell(0, 0.1)), seen.expect(Cell(1, 0.1))

    assert repeated.mean == pytest.approx(0.08, abs=0.02)
    assert repeated.deviation < 0.5 * unseen.deviation
    assert unseen.deviation == pytest.approx(0.1, rel=0.05)
    assert (unseen.mean, unseen.runs, repeated.runs) == (0.0, 0, 20)


def test_runs_of_the_fit_do_not_count_twice() -> None:
    seen = repetitions([CELL], NOISE)
    for ratio in (0.01, -0.02, 0.03, 0.0):
        seen.learn(ratio, CELL)
    before = seen.expect(CELL)

    seen.count_once()

    after = seen.expect(CELL)
    assert after.mean == before.mean
    assert before.deviation < after.deviation < 0.05
    assert after.deviation == pytest.approx((seen.noise_variance(seen.level(CELL)) * 1.25) ** 0.5)


def test_a_run_that_is_not_normal_tells_of_the_noise_alone() -> None:
    seen = repetitions([CELL], NOISE)
    for ratio in (0.01, -0.02, 0.03):
        seen.learn(ratio, CELL)
    before, noise = seen.expect(CELL), seen.variance

    seen.learn(0.2, CELL, is_normal=False)

    assert seen.expect(CELL).mean == before.mean
    assert seen.expect(CELL).runs == before.runs
    assert seen.variance > noise


def test_the_quantile_has_its_probability() -> None:
    expected = repetitions([CELL], NOISE).expect(CELL)

    assert expected.probability_above(expected.quantile(0.95)) == pytest.approx(0.05)


def simulated_p_values(
    rng: np.random.Generator, noises: NDArray[np.float64], cells: list[Cell], *, slower: float
) -> NDArray[np.float64]:
    """Return the p-values of last runs of the first configuration, 60 runs before each."""
    found, usual = [], float(np.sqrt(np.mean(noises**2)))
    for _ in range(600):
        seen, order = repetitions(cells, usual), rng.integers(0, len(cells), 60)
        for number in order.tolist():
            seen.learn(float(noises[number] * rng.normal()), cells[number])
        ratio = float(noises[0] * rng.normal() + np.log(slower))
        found.append(seen.expect(cells[0]).probability_above(ratio))
    return np.array(found)


def test_noise_of_short_runs_is_told_by_its_factor() -> None:
    noises = np.tile([4 * NOISE, NOISE], 6)
    cells = [Cell(number, 0.12, factor) for number, factor in enumerate([32 / 17, 2 / 17] * 6)]

    p_values = simulated_p_values(np.random.default_rng(3), noises, cells, slower=1.0)

    assert 0.02 <= (p_values < 0.05).mean() <= 0.07


def test_a_configuration_noisier_than_the_others_is_judged_by_its_own_runs() -> None:
    noises = np.array([4 * NOISE] + [NOISE] * 5)
    cells = [Cell(number, 0.3) for number in range(6)]

    p_values = simulated_p_values(np.random.default_rng(4), noises, cells, slower=1.0)

    # By the noise of all it would be 12 %.
    assert (p_values < 0.01).mean() <= 0.06


def test_a_noisy_configuration_does_not_hide_what_happens_to_another() -> None:
    noises = np.array([NOISE] * 5 + [4 * NOISE])
    cells = [Cell(number, 0.3) for number in range(6)]

    p_values = simulated_p_values(np.random.default_rng(5), noises, cells, slower=1.15)

    # By the noise of all it would be 38 %.
    assert (p_values < 0.01).mean() >= 0.5


def test_runs_with_little_noise_are_expected_closer() -> None:
    quiet, loud = Cell(0, 0.3, 0.1), Cell(1, 0.3, 4.0)
    seen = repetitions([quiet, loud], NOISE)
    for ratio in (0.1, 0.1, 0.1, 0.1):
        seen.learn(ratio, quiet)
        seen.learn(ratio, loud)

    assert seen.expect(quiet).deviation < 0.25 * seen.expect(loud).deviation
    assert 0.1 > seen.expect(quiet).mean > seen.expect(loud).mean
