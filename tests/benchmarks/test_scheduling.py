"""Replays of traces: GPUs are never given twice, orders differ as they should, files are read."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.scheduling.figures import figures_of
from benchmarks.scheduling.forecasting import Forecaster
from benchmarks.scheduling.replay import Outcome, replay_elastic, replay_fixed
from benchmarks.scheduling.traces import Job, Statistics, Trace, generate, read


@pytest.fixture(scope="module")
def trace() -> Trace:
    return generate(Statistics(), jobs=60, workloads=2, past_runs=12, capacity=8, load=1.5, seed=3)


@pytest.fixture(scope="module")
def forecaster(trace: Trace) -> Forecaster:
    return Forecaster(trace.past, time_budget_s=1.0)


def most_in_use(outcome: Outcome) -> int:
    gpus = {job.ref: job.gpus for job in outcome.jobs}
    return max(
        sum(
            gpus[ref]
            for ref, start in outcome.starts.items()
            if start <= instant < outcome.ends[ref]
        )
        for instant in outcome.starts.values()
    )


def test_fixed_replay_gives_each_job_its_gpus_and_none_twice(trace: Trace) -> None:
    outcome = replay_fixed(trace.replayed, 8)

    starts = [outcome.starts[job.ref] for job in trace.replayed]
    assert starts == sorted(starts)
    assert most_in_use(outcome) <= 8
    for job in trace.replayed:
        assert outcome.ends[job.ref] - outcome.starts[job.ref] == pytest.approx(job.duration_s)


def test_shortest_first_ends_jobs_sooner_than_first_come(
    trace: Trace, forecaster: Forecaster
) -> None:
    expected = forecaster.service(trace.replayed)

    first = replay_fixed(trace.replayed, 8)
    shortest = replay_fixed(trace.replayed, 8, lambda job: expected[job.ref])

    figures = [
        figures_of(outcome, price_per_gpu_hour=2.0, horizon_s=1e9) for outcome in (first, shortest)
    ]
    assert figures[1].mean_completion_s < figures[0].mean_completion_s
    assert figures[0].cost == pytest.approx(2.0 * figures[0].gpu_hours)
    assert figures[0].completed == figures[1].completed == 60
    assert figures[0].utilisation <= 1


def test_elastic_replay_ends_every_job_within_the_capacity(
    trace: Trace, forecaster: Forecaster
) -> None:
    outcome = replay_elastic(trace.replayed, 8, forecaster)

    figures = figures_of(outcome, price_per_gpu_hour=1.0, horizon_s=1e9)
    assert figures.completed == 60
    assert figures.utilisation <= 1 + 1e-9
    assert all(outcome.ends[job.ref] > job.submitted_s for job in trace.replayed)


def test_generated_durations_have_the_statistics_that_are_asked_for() -> None:
    found = generate(
        Statistics(), jobs=4000, workloads=3, past_runs=1, capacity=64, load=0.9, seed=0
    )

    durations = np.array([job.duration_s for job in found.replayed])
    assert np.median(durations) == pytest.approx(206.0, rel=0.2)
    submitted = [job.submitted_s for job in found.replayed]
    assert submitted == sorted(submitted)


def test_trace_of_a_file_is_cut_into_past_and_replay(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(
        "job_id,user,gpu_num,state,submit_time,duration,epochs\n"
        "1,ann,1,COMPLETED,2020-04-01 00:00:00,100,5\n"
        "2,bob,0,COMPLETED,2020-04-01 00:01:00,100,5\n"
        "3,bob,2,FAILED,2020-04-01 00:02:00,100,5\n"
        "4,bob,4,COMPLETED,2020-04-01 00:03:00,200,\n",
        encoding="utf-8",
    )

    found = read(path, history=0.5, capacity=8)

    [past], [replayed] = found.past, found.replayed
    assert (past.workload, past.gpus, past.features) == ("ann", 1, {"epochs": 5.0})
    assert (replayed.submitted_s, replayed.duration_s, replayed.gpus) == (0.0, 200.0, 4)
    assert replayed.seconds_on(8) < 200.0 < replayed.seconds_on(2)


def test_nothing_is_learned_from_a_job_that_had_not_ended_at_the_replay(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    rows = [(0, 50), (10, 900), (20, 80), (100, 60), (110, 5)]
    lines = [f"{submitted},{seconds},1,w" for submitted, seconds in rows]
    path.write_text("\n".join(["submitted_s,duration_s,gpus,workload", *lines]), encoding="utf-8")

    found = read(path, history=0.6, capacity=8)

    assert [job.duration_s for job in found.past] == [50.0, 80.0]
    assert [job.submitted_s for job in found.replayed] == [0.0, 10.0]
    for history in (0.2, 1.0):
        with pytest.raises(SystemExit, match="no job that ended before"):
            read(path, history=history, capacity=8)


@pytest.mark.parametrize("text", ["a,b\n1,2\n", "submitted_s,duration_s,gpus,workload\n"])
def test_file_without_jobs_or_columns_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(SystemExit):
        read(path, history=0.5, capacity=8)


def test_elastic_job_runs_at_its_true_rate() -> None:
    past = [Job(f"p{n}", "w", 0.0, 1000.0 / gpus, gpus) for n, gpus in enumerate([1, 2, 4] * 3)]
    jobs = [Job("only", "w", 0.0, 500.0, 2)]

    outcome = replay_elastic(jobs, 4, Forecaster(past, time_budget_s=1.0), stretch=2)

    assert outcome.ends["only"] == pytest.approx(jobs[0].seconds_on(4))
