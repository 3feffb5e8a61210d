"""The figures by which replays are judged, and their plots."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from benchmarks.scheduling.replay import Outcome
from models import FloatArray

mpl.use("svg")
_HOUR = 3600.0
_SHARES = np.linspace(0.0, 1.0, 301)


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one replay, in seconds except for GPU-hours, the cost and shares."""

    mean_completion_s: float
    tail_completion_s: float
    mean_queueing_s: float
    makespan_s: float
    gpu_hours: float
    cost: float
    utilisation: float
    completed: int


def completions(outcome: Outcome) -> FloatArray:
    """Return the seconds from submission to end of each job."""
    return np.array([outcome.ends[job.ref] - job.submitted_s for job in outcome.jobs])


def figures_of(outcome: Outcome, *, price_per_gpu_hour: float, horizon_s: float) -> Figures:
    """Return the figures of a replay; `completed` counts the jobs that ended by the horizon."""
    jobs = outcome.jobs
    times = completions(outcome)
    queueing = np.array([outcome.starts[job.ref] - job.submitted_s for job in jobs])
    ends = np.array([outcome.ends[job.ref] for job in jobs])
    makespan = float(ends.max()) - min(job.submitted_s for job in jobs)
    hours = outcome.gpu_seconds / _HOUR
    return Figures(
        mean_completion_s=float(times.mean()),
        tail_completion_s=float(np.quantile(times, 0.99)),
        mean_queueing_s=float(queueing.mean()),
        makespan_s=makespan,
        gpu_hours=hours,
        cost=hours * price_per_gpu_hour,
        utilisation=outcome.gpu_seconds / (makespan * outcome.capacity),
        completed=int((ends <= horizon_s).sum()),
    )


def plot_completions(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Plot the distribution of completion times under each policy."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, outcome in outcomes.items():
        axes.plot(np.quantile(completions(outcome), _SHARES) / _HOUR, _SHARES, label=name)
    axes.set_xscale("log")
    axes.set_xlabel("hours from submission to end")
    axes.set_ylabel("share of the jobs")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path)


def plot_progress(outcomes: Mapping[str, Outcome], path: Path) -> None:
    """Plot the number of ended jobs over time under each policy."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, outcome in outcomes.items():
        ends = np.array(list(outcome.ends.values())) / _HOUR
        axes.plot(np.quantile(ends, _SHARES), _SHARES * ends.size, label=name)
    last = max(job.submitted_s for outcome in outcomes.values() for job in outcome.jobs) / _HOUR
    axes.axvline(last, color="grey", linestyle=":", label="last submission")
    axes.set_xlim(0, 2 * last)
    axes.set_xlabel("hours")
    axes.set_ylabel("jobs ended")
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    figure.savefig(path)
