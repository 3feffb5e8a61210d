"""Of two repetitions that contradict each other the one that the other runs believe leads."""

import numpy as np
import pytest

from models import FeatureTable, RunTable, fit_portfolio
from models.features.encoder import Encoder
from models.reports import Outlier
from models.runs.configurations import collapse
from models.screening.contradictions import name_contradicted, settle_pairs

ROWS = [(w, d) for w in (1.0, 2.0, 4.0, 8.0) for d in (1e3, 3e3, 9e3, 27e3)]
QUESTIONS = FeatureTable(
    {"workers": np.array([3.0, 16.0]), "dataset_size": np.array([2e4, 9e3])}, {}, 2
)
NOISE = 0.02


def make_runs(factors: dict[int, float], n_rows: int = 16, n_repeated: int = 16) -> RunTable:
    """Two runs of the first configurations (run 2 row and 2 row + 1) and one of the rest."""
    rows = [row for row in ROWS[:n_repeated] for _ in range(2)] + ROWS[n_repeated:n_rows]
    w, d = np.array(rows).T
    seconds = (20 + d / w) * np.exp(np.random.default_rng(3).normal(0, NOISE, len(rows)))
    for run, factor in factors.items():
        seconds[run] *= factor
    table = FeatureTable({"workers": w, "dataset_size": d}, {}, len(rows))
    return RunTable(table, seconds, [f"run_{run:03}" for run in range(len(rows))])


def find(runs: RunTable) -> tuple[Outlier, ...]:
    measured = collapse(runs)
    settled = settle_pairs(measured, Encoder.learn(measured.features), 0)
    return name_contradicted(runs, measured, settled)


@pytest.mark.parametrize("factor", [8.0, 3.0, 1.6, 1 / 3, 1 / 8])
def test_the_run_that_the_others_do_not_believe_is_named(factor: float) -> None:
    (contradiction,) = find(make_runs({13: factor}))

    assert (contradiction.run_id, contradiction.beside) == ("run_013", "run_012")
    assert contradiction.ratio == pytest.approx(factor, rel=0.15)


def test_the_believed_run_is_what_counts_and_counts_once() -> None:
    runs = make_runs({13: 8.0})
    measured = collapse(runs)

    settled = settle_pairs(measured, Encoder.learn(measured.features), 0)

    (row,) = np.flatnonzero(measured.contradicted)
    assert settled.log_duration[row] == pytest.approx(np.log(runs.duration_seconds[12]), abs=0.05)
    assert settled.counts[row] == pytest.approx(1, abs=0.05)
    kept = ~measured.contradicted
    assert (settled.log_duration[kept] == measured.log_duration[kept]).all()


def test_noise_is_that_of_the_pairs_that_agree() -> None:
    measured = collapse(make_runs({13: 8.0}))

    assert measured.noise_variance**0.5 == pytest.approx(NOISE, rel=0.4)
    assert measured.noise_dof == 15


def test_forecasts_are_those_without_the_odd_run() -> None:
    clean, odd = make_runs({}), make_runs({13: 8.0})

    forecasts = [
        fit_portfolio(runs, seed=0, time_budget_s=30).predict(QUESTIONS) for runs in (clean, odd)
    ]

    before, after = (forecast.median() for forecast in forecasts)
    assert after == pytest.approx(before, rel=0.05)
    widths = [np.divide(*forecast.interval(0.9)[::-1]) for forecast in forecasts]
    assert (widths[1] < 1.3 * widths[0]).all()


def test_the_report_of_a_fit_names_it_and_measured_bounds_hold_both() -> None:
    runs = make_runs({13: 8.0})

    portfolio = fit_portfolio(runs, seed=0, time_budget_s=30)

    assert [outlier.run_id for outlier in portfolio.report.evidence.outliers] == ["run_013"]
    questions = runs.features.take(np.array([12]))
    assert 0.9 < portfolio.predict(questions).median()[0] / runs.duration_seconds[12] < 1.1


def test_where_nothing_else_is_known_the_slower_run_is_doubted_and_both_are_possible() -> None:
    features = FeatureTable({"workers": np.full(2, 4.0)}, {}, 2)
    runs = RunTable(features, np.array([800.0, 100.0]), ["slow", "fast"])

    (found,) = find(runs)
    low, high = fit_portfolio(runs, seed=0, time_budget_s=30).predict(features).interval(0.9)

    assert found.run_id == "slow"
    assert low[0] < 100
    assert high[0] > 800


@pytest.mark.parametrize("n_repeated", [1, 2])
def test_one_or_two_pairs_contradict_themselves_by_a_large_factor_alone(n_repeated: int) -> None:
    assert not find(make_runs({1: 2.0}, n_repeated=n_repeated))
    assert [each.run_id for each in find(make_runs({1: 8.0}, n_repeated=n_repeated))] == ["run_001"]


def test_runs_that_often_differ_do_not_contradict_each_other() -> None:
    often = dict.fromkeys(range(1, 32, 8), 2.0)

    measured = collapse(make_runs(often))

    assert not measured.contradicted.any()
    assert measured.noise_variance**0.5 > 5 * NOISE


@pytest.mark.parametrize("seed", range(5))
def test_heavy_tails_are_no_contradiction(seed: int) -> None:
    runs = make_runs({})
    noise = np.random.default_rng(seed).standard_t(4, runs.n_runs)
    noisy = RunTable(runs.features, runs.duration_seconds * np.exp(0.05 * noise), runs.run_ids)

    assert not find(noisy)


def test_a_pair_of_three_runs_and_more_is_left_to_their_median() -> None:
    runs = make_runs({})
    again = np.append(np.arange(32), [0, 2])
    seconds = runs.duration_seconds[again] * np.where(np.arange(34) >= 32, 8.0, 1.0)
    thrice = RunTable(
        runs.features.take(again), seconds, [*runs.run_ids, "run_again_1", "run_again_2"]
    )

    assert not collapse(thrice).contradicted.any()


def test_the_unit_of_durations_does_not_matter() -> None:
    runs = make_runs({13: 8.0})
    hours = RunTable(runs.features, runs.duration_seconds / 3600, runs.run_ids)

    logs = []
    for table in (runs, hours):
        measured = collapse(table)
        settled = settle_pairs(measured, Encoder.learn(measured.features), 0)
        logs.append(settled.log_duration - measured.log_duration)

    assert logs[0].tolist() == logs[1].tolist()
