"""Replay a job trace under several policies and print how they compare.

Usage: ``python -m benchmarks.scheduling [--trace FILE.csv] [--jobs N] [--capacity GPUS]
[--load L] [--overload L] [--seeds 0 1 2] [--plots DIR] [--vary]``. Without a trace, one is
generated like those of published GPU clusters (see `traces.Statistics` for what is published and
what is assumed); ``--vary`` instead replays it with other assumptions, one at a time.
"""

import argparse
import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np  # noqa: E402 - threads are limited before
from rich.console import Console  # noqa: E402 - see above
from rich.table import Table  # noqa: E402 - see above

from benchmarks.scheduling.allocating import time_allocations  # noqa: E402 - see above
from benchmarks.scheduling.figures import (  # noqa: E402 - see above
    Figures,
    figures_of,
    plot_completions,
    plot_progress,
)
from benchmarks.scheduling.forecasting import Forecaster  # noqa: E402 - see above
from benchmarks.scheduling.replay import (  # noqa: E402 - see above
    Outcome,
    replay_elastic,
    replay_fixed,
)
from benchmarks.scheduling.traces import Statistics, Trace, generate, read  # noqa: E402
from benchmarks.scheduling.varying import variants  # noqa: E402 - threads are limited before

FIFO, SHORTEST, PERFECT = "first come", "shortest by forecast", "shortest by the truth"
FIXED, FIXED_SHORTEST, ELASTIC = "fixed, first come", "fixed, shortest by forecast", "elastic"
_CONSOLE = Console(width=132)


def main() -> None:
    """Replay, print, plot."""
    arguments = _parse()
    if arguments.allocations:
        _print_allocations()
        return
    if arguments.vary:
        _vary(arguments)
        return
    gains, factors = [], []
    for seed in arguments.seeds:
        _CONSOLE.rule(f"seed {seed}")
        gains.append(_compare_orders(arguments, seed))
        factors.append(_compare_elastic(arguments, seed))
        if arguments.trace is not None:
            break
    _CONSOLE.rule("all seeds")
    _CONSOLE.print(
        "Share of perfect knowledge's gain over first come, in mean completion:"
        f" {_range(gains)} (lowest .. median .. highest)"
    )
    _CONSOLE.print(
        "Jobs ended by the last submission, elastic over fixed first come:"
        f" {_range([first for first, _ in factors])}; over fixed shortest by forecast:"
        f" {_range([second for _, second in factors])}"
    )
    _print_allocations()


def _range(values: Sequence[float]) -> str:
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return "nothing to gain"
    return f"{min(known):.3f} .. {float(np.median(known)):.3f} .. {max(known):.3f}"


def _vary(arguments: argparse.Namespace) -> None:
    """Print the two main results under other assumptions, without the figures of each replay."""
    _CONSOLE.print("trace: share of perfect knowledge's gain; jobs ended, elastic / fixed")
    for name, statistics in variants(_statistics(arguments)).items():
        gains, factors = [], []
        for seed in arguments.seeds:
            trace = _generate(arguments, statistics, seed, arguments.load)
            gains.append(_gain(_judge(_replay_orders(trace, arguments), arguments)))
            trace = _generate(arguments, statistics, seed, arguments.overload)
            figures = _judge(_replay_elastic(trace, arguments), arguments)
            factors.append(figures[ELASTIC].completed / figures[FIXED].completed)
        _CONSOLE.print(f"{name}: {_range(gains)}; {_range(factors)}")


def _compare_orders(arguments: argparse.Namespace, seed: int) -> float:
    outcomes = _replay_orders(_trace(arguments, seed, arguments.load), arguments)
    figures = _judge(outcomes, arguments)
    _show(figures, outcomes, f"Order of the queue{_load(arguments, arguments.load)}")
    if arguments.plots is not None:
        plot_completions(outcomes, arguments.plots / f"completion-times-{seed}.svg")
    first, shortest, perfect = (
        figures[name].mean_completion_s for name in (FIFO, SHORTEST, PERFECT)
    )
    gain = _gain(figures)
    _CONSOLE.print(
        f"Mean completion {first / shortest:.2f} times shorter by the forecast,"
        f" {first / perfect:.2f} times by the truth: {gain:.3f} of the gain.\n"
    )
    return gain


def _compare_elastic(arguments: argparse.Namespace, seed: int) -> tuple[float, float]:
    outcomes = _replay_elastic(_trace(arguments, seed, arguments.overload), arguments)
    figures = _judge(outcomes, arguments)
    _show(figures, outcomes, f"Fixed against elastic{_load(arguments, arguments.overload)}")
    if arguments.plots is not None:
        plot_progress(outcomes, arguments.plots / f"jobs-ended-{seed}.svg")
    elastic = figures[ELASTIC].completed
    return elastic / figures[FIXED].completed, elastic / figures[FIXED_SHORTEST].completed


def _replay_orders(trace: Trace, arguments: argparse.Namespace) -> dict[str, Outcome]:
    forecaster = Forecaster(trace.past, time_budget_s=arguments.time_budget)
    jobs, capacity = trace.replayed, arguments.capacity
    expected = forecaster.service(jobs)
    return {
        FIFO: replay_fixed(jobs, capacity),
        SHORTEST: replay_fixed(jobs, capacity, lambda job: expected[job.ref]),
        PERFECT: replay_fixed(jobs, capacity, lambda job: job.duration_s * job.gpus),
    }


def _replay_elastic(trace: Trace, arguments: argparse.Namespace) -> dict[str, Outcome]:
    forecaster = Forecaster(trace.past, time_budget_s=arguments.time_budget)
    jobs, capacity = trace.replayed, arguments.capacity
    expected = forecaster.service(jobs)
    return {
        FIXED: replay_fixed(jobs, capacity),
        FIXED_SHORTEST: replay_fixed(jobs, capacity, lambda job: expected[job.ref]),
        ELASTIC: replay_elastic(jobs, capacity, forecaster, restart_s=arguments.restart),
    }


def _trace(arguments: argparse.Namespace, seed: int, load: float) -> Trace:
    if arguments.trace is not None:
        return read(arguments.trace, history=arguments.history, capacity=arguments.capacity)
    return _generate(arguments, _statistics(arguments), seed, load)


def _statistics(arguments: argparse.Namespace) -> Statistics:
    values = {field.name: getattr(arguments, field.name) for field in fields(Statistics)}
    lists = {name: tuple(values[name]) for name in ("gpu_counts", "gpu_shares")}
    return Statistics(**{**values, **lists})


def _generate(
    arguments: argparse.Namespace, statistics: Statistics, seed: int, load: float
) -> Trace:
    return generate(
        statistics,
        jobs=arguments.jobs,
        workloads=arguments.workloads,
        past_runs=arguments.past_runs,
        capacity=arguments.capacity,
        load=load,
        seed=seed,
    )


def _judge(outcomes: dict[str, Outcome], arguments: argparse.Namespace) -> dict[str, Figures]:
    horizon = max(job.submitted_s for outcome in outcomes.values() for job in outcome.jobs)
    return {
        name: figures_of(outcome, price_per_gpu_hour=arguments.price, horizon_s=horizon)
        for name, outcome in outcomes.items()
    }


def _load(arguments: argparse.Namespace, load: float) -> str:
    """Return the load as a part of a title; a trace from a file has its own."""
    return f", load {load}" if arguments.trace is None else ""


def _gain(figures: dict[str, Figures]) -> float:
    """Return the gain as a share of that of perfect knowledge, NaN if no order gains anything."""
    first, shortest, perfect = (
        figures[name].mean_completion_s for name in (FIFO, SHORTEST, PERFECT)
    )
    return (first - shortest) / (first - perfect) if first > perfect else float("nan")


def _show(figures: dict[str, Figures], outcomes: dict[str, Outcome], title: str) -> None:
    first = next(iter(outcomes.values()))
    table = Table(title=f"{title}: {len(first.jobs)} jobs on {first.capacity} GPUs")
    columns = ("mean h", "99 % h", "queueing h", "makespan h", "GPU-hours", "cost", "used", "ended")
    table.add_column("policy")
    for column in columns:
        table.add_column(column, justify="right")
    for name, figure in figures.items():
        table.add_row(name, *_cells(figure))
    _CONSOLE.print(table)


def _cells(figures: Figures) -> tuple[str, ...]:
    hours = (
        figures.mean_completion_s,
        figures.tail_completion_s,
        figures.mean_queueing_s,
        figures.makespan_s,
    )
    return (
        *(f"{value / 3600:.2f}" for value in hours),
        f"{figures.gpu_hours:.0f}",
        f"{figures.cost:.0f}",
        f"{figures.utilisation:.2f}",
        str(figures.completed),
    )


def _print_allocations() -> None:
    table = Table(title="Allocating GPUs to elastic jobs, time limit 10 s")
    for column in (
        *("jobs", "GPUs", "GPU types", "makes small", "seconds", "left out", "method", "exact"),
        "gap",
    ):
        table.add_column(column)
    for jobs, gpus in ((300, 512), (1000, 16_384), (1000, 512)):
        for row in time_allocations(jobs, gpus, 10.0):
            table.add_row(str(jobs), str(gpus), *row)
    _CONSOLE.print(table)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduling", description=__doc__)
    parser.add_argument("--allocations", action="store_true", help="time allocations, replay none")
    parser.add_argument("--trace", type=Path, help="CSV of jobs; generated without")
    parser.add_argument("--history", type=float, default=0.5, help="share of a trace learned from")
    parser.add_argument("--jobs", type=int, default=3000, help="replayed, when generated")
    parser.add_argument("--workloads", type=int, default=12, help="when generated")
    parser.add_argument("--past-runs", type=int, default=40, help="of each workload")
    parser.add_argument("--capacity", type=int, default=64, help="GPUs")
    parser.add_argument("--load", type=float, default=0.9, help="GPUs asked for over GPUs there")
    parser.add_argument("--overload", type=float, default=1.5, help="the same, fixed or elastic")
    parser.add_argument("--restart", type=float, default=60.0, help="seconds a change costs a job")
    parser.add_argument("--price", type=float, default=1.0, help="of a GPU-hour")
    parser.add_argument("--time-budget", type=float, default=5.0, help="seconds of each fit")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    for parameter in fields(Statistics):
        option, default = f"--{parameter.name.replace('_', '-')}", parameter.default
        if isinstance(default, tuple):
            kind = type(default[0])
            parser.add_argument(option, type=kind, nargs="+", default=default, help="generated")
        else:
            parser.add_argument(option, type=float, default=default, help="when generated")
    parser.add_argument("--vary", action="store_true", help="replay other assumptions")
    parser.add_argument("--plots", type=Path, help="folder for SVG files")
    arguments = parser.parse_args()
    if arguments.vary and arguments.trace is not None:
        parser.error("--vary changes how a trace is generated, hence takes no --trace")
    if arguments.plots is not None:
        arguments.plots.mkdir(parents=True, exist_ok=True)
    return arguments


if __name__ == "__main__":
    main()
