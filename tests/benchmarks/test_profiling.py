"""Replays of profiling sessions: every order arrives, and what was measured is kept."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.profiling.problems import Problem, Workload, make_problem
from benchmarks.profiling.reporting import append_reaches, print_reaches, read_reaches
from benchmarks.profiling.trial import (
    ORDERS,
    START_RUNS,
    STOP_RULE,
    WITHIN,
    Reach,
    Replay,
    Trials,
)
from tests.models.workloads import grid, make_runs

REPLAY = Replay({}, growth=2.0)


@pytest.fixture(scope="module")
def workload() -> Workload:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000), ("V100", "K80")), noise=0.05)
    return Workload("w", runs, runs.features.numeric["workers"].copy())


@pytest.fixture(scope="module")
def problem(workload: Workload) -> Problem:
    return make_problem(workload, 0)


@pytest.fixture(scope="module")
def reaches(workload: Workload) -> list[Reach]:
    return Trials(workload, (0, 1), REPLAY).run()


def test_targets_are_no_candidates(workload: Workload, problem: Problem) -> None:
    candidates, targets = set(problem.candidates.run_ids), set(problem.targets.run_ids)

    assert not candidates & targets
    assert candidates | targets <= set(workload.runs.run_ids)
    assert problem.dollars == pytest.approx(
        problem.candidates.duration_seconds / 3600 * problem.candidates.features.numeric["workers"]
    )


def test_every_order_arrives_and_pays_for_what_it_measured(
    problem: Problem, reaches: list[Reach]
) -> None:
    assert [reach.order for reach in reaches] == [*ORDERS, *ORDERS]
    for reach in reaches:
        assert reach.error <= WITHIN * reach.final_error
        assert 0 <= reach.runs <= problem.candidates.n_runs - START_RUNS
        assert reach.dollars == pytest.approx(reach.share * problem.dollars.sum())
        assert (reach.dollars > 0) == (reach.runs > 0)


def test_stop_rule_ends_a_session_by_itself(
    workload: Workload, problem: Problem, capsys: pytest.CaptureFixture[str]
) -> None:
    replay = Replay({}, growth=2.0, members=("scaling_law", "log_linear"), has_stop_rule=True)

    reaches = Trials(workload, (0,), replay).run()

    assert [reach.order for reach in reaches] == [*ORDERS, STOP_RULE]
    assert 0 < reaches[-1].runs < problem.candidates.n_runs - START_RUNS
    print_reaches(reaches)
    assert "stop rule ends it" in capsys.readouterr().out


def test_file_that_is_begun_is_gone_on_with(reaches: list[Reach], tmp_path: Path) -> None:
    path = tmp_path / "reaches.csv"

    assert read_reaches(path) == []
    append_reaches(reaches[:4], path)
    append_reaches(reaches[4:], path)

    assert read_reaches(path) == reaches


def test_report_weighs_the_plan_against_each_order(capsys: pytest.CaptureFixture[str]) -> None:
    shares = {"plan": 0.1, "ernest": 0.2, "cheapest": 0.1, "random": 0.4}
    reaches = [
        Reach("w", seed, order, share, share, 5, 0.1, 0.1)
        for seed in range(3)
        for order, share in shares.items()
    ]

    print_reaches(reaches)

    stdout = capsys.readouterr().out
    assert "dollars of the plan / random: median over 1 workloads 0.25" in stdout
    assert "dollars of the plan / cheapest: median over 1 workloads 1.00" in stdout
    assert "goal of at most 0.5 of random order: met" in stdout


def test_members_of_a_replay_are_those_asked_for(problem: Problem) -> None:
    small = Replay({}, members=("log_linear",)).fit(problem, range(8))
    whole = Replay({}, members=None).fit(problem, range(8))

    assert list(small.members) == ["log_linear"]
    assert len(whole.members) > 1
    assert np.isfinite(small.predict(problem.targets.features).median()).all()


def test_weights_are_learned_only_where_that_is_asked(problem: Problem) -> None:
    prior, learned = (
        Replay({}, members=("log_linear", "scaling_law"), has_held_out=asked).fit(problem, range(8))
        for asked in (False, True)
    )

    assert prior.report.accuracy_by_axis == {}
    assert learned.report.accuracy_by_axis["interpolation"] > 0
