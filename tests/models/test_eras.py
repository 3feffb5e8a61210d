"""Change points: found when durations shift, at the stated rate where nothing does."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from models import (
    ChangePoint,
    Evidence,
    FeatureTable,
    RunTable,
    UnfinishedRuns,
    at_present,
    compare,
    dumps,
    fit_portfolio,
    loads,
)
from models.screening.eras import FALSE_ALARM_RATE, find_change_points

pytestmark = pytest.mark.lengthy

CONFIGURATIONS = [(w, s, g) for w in (1, 2, 4, 8) for s in (1e3, 4e3) for g in "AB"]


@dataclass(frozen=True)
class History:
    """How runs came about."""

    seed: int = 0
    shift: float = 0.0
    repetitions: int = 3
    in_blocks: bool = False

    def runs(self) -> RunTable:
        rng = np.random.default_rng(self.seed)
        which = np.repeat(np.arange(len(CONFIGURATIONS)), self.repetitions)
        which = which if self.in_blocks else rng.permutation(which)
        rows = [CONFIGURATIONS[index] for index in which]
        law = [np.log(50 + 0.5 * s / w * (1.6 if g == "A" else 1.0)) for w, s, g in rows]
        logs = np.array(law) + rng.normal(0, 0.08, len(CONFIGURATIONS))[which]
        logs = logs + rng.normal(0, 0.03, len(rows))
        logs[len(rows) // 2 :] += self.shift
        features = FeatureTable(
            {
                "workers": np.array([float(w) for w, _, _ in rows]),
                "dataset_size": np.array([s for _, s, _ in rows]),
            },
            {"gpu_type": [g for _, _, g in rows]},
            len(rows),
        )
        names = [f"run_{index}" for index in range(len(rows))]
        return RunTable(features, np.exp(logs), names, np.arange(len(rows), dtype=np.float64))


@pytest.mark.parametrize("shift", [-0.3, 0.15, 0.4])
def test_a_shift_of_all_durations_is_found_where_it_happened(shift: float) -> None:
    change_points = find_change_points(History(shift=shift).runs())

    assert len(change_points) == 1
    assert abs(change_points[0].at - 24) <= 2
    assert change_points[0].shift == pytest.approx(shift, abs=0.05)


@pytest.mark.parametrize("shift", [-2.3, 1.1, 3.4])
def test_a_last_night_that_differs_much_is_one_change_of_its_whole_size(shift: float) -> None:
    rows = [(w, s) for w in (1.0, 2.0, 4.0, 8.0) for s in (1e4, 4e4)] * 3
    nights = np.repeat(np.arange(3.0), 8)
    workers, size = (np.array(column) for column in zip(*rows, strict=True))
    noise = np.random.default_rng(1).normal(0, 0.03, len(rows))
    seconds = (size / workers / 100 + 5) * np.exp(noise + shift * (nights == 2))
    features = FeatureTable({"workers": workers, "dataset_size": size}, {}, len(rows))
    names = [f"run_{index}" for index in range(len(rows))]

    change_points = find_change_points(
        RunTable(features, seconds, names, nights * 100 + np.arange(24))
    )

    assert [each.at for each in change_points] == [216]
    assert change_points[0].shift == pytest.approx(shift, abs=0.1)


def history_of_years(lengths: Sequence[int], shifts: Sequence[float]) -> RunTable:
    """Return runs of eras of these lengths; each but the first begins with a shift."""
    n, rng = sum(lengths), np.random.default_rng(5)
    workers, size = rng.choice([1.0, 2.0, 4.0, 8.0], n), rng.choice([1e3, 4e3], n)
    levels = np.repeat(np.cumsum([0.0, *shifts]), lengths)
    seconds = (30 + size / workers / 2) * np.exp(levels + rng.normal(0, 0.03, n))
    features = FeatureTable({"workers": workers, "dataset_size": size}, {}, n)
    return RunTable(
        features, seconds, [f"run_{row}" for row in range(n)], np.arange(n, dtype=float)
    )


def test_many_changes_are_told_apart_and_estimated_together() -> None:
    shifts = [0.2, -0.2, 0.15, 0.12, -0.15, 0.2]
    runs = history_of_years([60] * 7, shifts)

    found = find_change_points(runs)

    still_to_come = np.repeat(np.cumsum([0.0, *shifts])[-1] - np.cumsum([0.0, *shifts]), 60)
    moved = np.log(at_present(runs, found).duration_seconds / runs.duration_seconds)
    eras = (moved - still_to_come).reshape(7, 60)
    assert len({each.at for each in found}) == len(found)
    assert np.median(eras, axis=1) == pytest.approx(np.zeros(7), abs=0.03)


def test_a_change_is_found_after_few_runs_however_long_the_history_is() -> None:
    [found] = find_change_points(history_of_years([985, 15], [0.2]))

    assert found.at == pytest.approx(985, abs=8)
    assert found.shift == pytest.approx(0.2, abs=0.03)


def test_false_alarms_are_as_rare_as_stated() -> None:
    alarms = sum(len(find_change_points(History(seed).runs())) > 0 for seed in range(60))

    # 4 of 60 or more has a probability below 0.4 % at the stated rate.
    assert FALSE_ALARM_RATE == 0.01
    assert alarms <= 3


def test_configurations_measured_one_after_the_other_are_no_change() -> None:
    alarms = sum(
        len(find_change_points(History(seed, in_blocks=True).runs())) > 0 for seed in range(30)
    )

    assert alarms <= 3


def test_without_repetitions_a_large_shift_is_found_and_misfit_is_not() -> None:
    quiet = [find_change_points(History(seed, repetitions=1).runs()) for seed in range(15)]
    loud = [find_change_points(History(seed, 1.0, repetitions=1).runs()) for seed in range(15)]

    assert sum(len(each) > 0 for each in quiet) <= 2
    assert sum(len(each) > 0 for each in loud) >= 8


def test_small_shifts_few_runs_and_unknown_times_are_left_alone() -> None:
    runs = History(shift=0.03).runs()
    late = History(shift=0.5).runs()

    assert find_change_points(runs) == ()
    assert find_change_points(late.take(np.arange(6))) == ()
    assert find_change_points(replace(late, started_at=None)) == ()
    assert find_change_points(replace(late, started_at=np.zeros(late.n_runs))) == ()


def test_forecasts_are_those_of_today_and_earlier_runs_keep_the_shape() -> None:
    runs = History(shift=0.4).runs()
    today = at_present(runs, [ChangePoint(24.0, 0.4)])

    portfolio = fit_portfolio(runs, seed=0, time_budget_s=20, regressors=["log_linear"])

    ratio = portfolio.predict(runs.features).median() / today.duration_seconds
    assert np.median(ratio) == pytest.approx(1.0, abs=0.05)
    assert len(portfolio.report.evidence.change_points) == 1
    assert loads(dumps(portfolio)).report.evidence == portfolio.report.evidence


def test_a_regressor_of_today_beats_one_of_yesterday_on_runs_of_both() -> None:
    runs = History(shift=0.4).runs()
    today, yesterday = (
        fit_portfolio(table, seed=0, time_budget_s=20, regressors=["log_linear"])
        for table in (runs, runs.take(np.arange(24)))
    )

    comparison = compare(today, yesterday, runs)

    assert comparison.is_better
    assert comparison.challenger_mape < 0.2 < comparison.incumbent_mape


def test_order_of_runs_with_one_date_and_duration_does_not_matter() -> None:
    rng = np.random.default_rng(16)
    size, workers = np.tile([1e3, 2e3, 4e3, 8e3], 6), rng.choice([1.0, 2.0, 4.0, 8.0], 24)
    pace = np.exp(rng.normal(0, 0.08, 24)) * np.repeat([1.0, 1.13], 12)
    seconds = (size / workers / 10 * pace).round(-1).clip(10)
    days = np.floor(np.arange(24) / 4) * 86_400.0
    names = [f"run_{row}" for row in range(24)]
    features = FeatureTable({"dataset_size": size, "workers": workers}, {}, 24)
    runs = RunTable(features, seconds, names, days)

    found = [find_change_points(runs.take(rng.permutation(24))) for _ in range(8)]

    assert len(np.unique(np.stack([days, seconds]), axis=1).T) < len(names)
    assert len(set(found)) == 1


def test_times_that_are_not_finite_or_too_few_are_refused() -> None:
    runs = History().runs()

    for times in (np.full(runs.n_runs, np.nan), np.zeros(1)):
        with pytest.raises(ValueError, match="Times of start"):
            replace(runs, started_at=times)


def test_unfinished_runs_of_before_a_change_are_taken_at_the_pace_of_today() -> None:
    rng = np.random.default_rng(5)
    workers = np.tile([1.0, 2.0, 4.0, 8.0], 10)
    seconds = (20 + 4000 / workers) * np.repeat([5.0, 1.0], 20) * rng.lognormal(0, 0.02, 40)
    features = FeatureTable({"workers": workers}, {}, 40)
    runs = RunTable(features, seconds, [str(n) for n in range(40)], np.arange(40.0))
    questions = FeatureTable({"workers": np.array([16.0])}, {}, 1)
    # Stopped at half of its work, when everything took five times as long.
    elapsed = np.array([0.5 * 5 * (20 + 4000 / 16)])
    stopped = UnfinishedRuns(questions, elapsed, np.array([0.5]), ["old"], np.array([3.0]))

    portfolio = fit_portfolio(
        runs,
        seed=0,
        time_budget_s=20,
        regressors=["scaling_law"],
        evidence=Evidence(unfinished=stopped),
    )

    assert len(portfolio.report.evidence.change_points) == 1
    assert portfolio.predict(questions).median()[0] == pytest.approx(20 + 4000 / 16, rel=0.1)


def test_a_shift_is_not_shared_with_the_law_that_is_fitted_across_it() -> None:
    estimates = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        workers, local_batch = 2.0 ** rng.integers(0, 5, 80), 2.0 ** rng.integers(5, 9, 80)
        size, kind = rng.choice([1e5, 2e5, 5e5, 1e6], 80), rng.integers(0, 3, 80)
        steps = size / (workers * local_batch)
        step = 1e-4 * local_batch * (1 + kind) + 0.02 + 0.008 * np.log2(workers)
        seconds = (20 + steps * step) * np.exp(rng.normal(0, 0.03, 80))
        seconds[60:] *= 1.4
        columns = {"workers": workers, "dataset_size": size, "batch_size": workers * local_batch}
        features = FeatureTable(columns, {"gpu_type": [f"gpu {code}" for code in kind]}, 80)
        names = [f"run_{index}" for index in range(80)]
        (change,) = find_change_points(RunTable(features, seconds, names, np.arange(80.0)))
        estimates.append(change.shift)

    assert np.mean(estimates) == pytest.approx(np.log(1.4), abs=0.01)
