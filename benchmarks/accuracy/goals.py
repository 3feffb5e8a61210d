"""Goals of the library on judged tasks, and whether they are met."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.table import Table

from benchmarks.accuracy.judging import Judgement
from benchmarks.accuracy.own_error import attainable_share
from benchmarks.accuracy.tables import Group, geometric_mean, groups_of, median

MAX_GROUP_MAPE, MAX_PEER_RATIO, MIN_SHARE_BETTER, MAX_WORST_RATIO = 0.10, 0.80, 0.70, 3.0
MIN_COVERAGE, MAX_COVERAGE, MIN_GROUP_COVERAGE = 0.87, 0.95, 0.78
MIN_SHARE_KNOWN = 0.80
AT_THE_FLOOR = 1.25
"""An error within this factor of the noise of repetitions leaves little to gain."""

MANY_TEST_RUNS = 30
"""From this many test runs on, a task's error hardly depends on which ones were drawn."""

_LISTED = 12
_TARGET_CELLS = 4

Targets = Mapping[tuple[str, str], float]
"""Median MAPE (a fraction) by data set and regime."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A wanted figure and the one that was reached."""

    name: str
    wanted: str
    found: str
    is_met: bool
    remark: str = ""


def goals_of(
    judgements: Sequence[Judgement],
    *,
    group: Sequence[str] = (),
    unseen: Sequence[str] = (),
    targets: Targets | None = None,
) -> list[Goal]:
    """Return every goal that can be checked by the judged tasks.

    Parameters
    ----------
    judgements
        The judgements, one per task.
    group
        Data sets over which the geometric mean of the errors is taken.
    unseen
        Data sets on which no task may be far worse than the best other tool; all if empty.
    targets
        Wanted medians of groups.
    """
    members = [item for item in judgements if item.data_set in group]
    peers = [item for item in judgements if np.isfinite(item.ratio)]
    judged = [item for item in peers if not unseen or item.data_set in unseen]
    goals = [_mean_error(members)] if members else []
    goals += [_peer_ratio(peers), _share_better(peers)] if peers else []
    goals += [_worst(judged)] if judged else []
    goals += list(_coverages(judgements))
    goals += [_worst_group(judgements), _own_error(judgements)]
    goals += [_medians(judgements, targets)] if targets else []
    return goals


def goal_table(goals: Sequence[Goal]) -> Table:
    """Return the goals as a table with one line each."""
    table = Table("goal", "wanted", "found", "", "remark", title="Goals")
    for goal in goals:
        verdict = "[green]met[/]" if goal.is_met else "[red]missed[/]"
        table.add_row(goal.name, goal.wanted, goal.found, verdict, goal.remark)
    return table


def floor_table(judgements: Sequence[Judgement]) -> Table | None:
    """Return the tasks where noise of repetitions leaves little to gain, None without any."""
    near = [item for item in judgements if item.floor_ratio <= AT_THE_FLOOR]
    if not near:
        return None
    known = sum(np.isfinite(item.floor) for item in judgements)
    title = (
        f"{len(near)} of {known} tasks with repetitions are within {AT_THE_FLOOR} of their noise"
    )
    table = Table("task", "MAPE %", "noise of repetitions %", "best peer %", title=title)
    for item in sorted(near, key=lambda item: -item.mape)[:_LISTED]:
        peer = f"{100 * item.peer_mape:.1f}" if np.isfinite(item.peer_mape) else ""
        table.add_row(item.task, f"{100 * item.mape:.1f}", f"{100 * item.floor:.1f}", peer)
    return table


def read_targets(path: Path | None) -> dict[tuple[str, str], float]:
    """Return the medians of a table with the cells data set, regime, tasks, median MAPE in percent.

    Regimes are called ``random 70/30``, ``few-shot``, ``extrap. AXIS`` and ``transfer CATEGORY``;
    other lines of the file are skipped.
    """
    targets: dict[tuple[str, str], float] = {}
    for line in path.read_text().splitlines() if path else []:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) >= _TARGET_CELLS and cells[2].isdigit():
            targets[cells[0], cells[1]] = float(cells[3]) / 100
    return targets


def regime_of(group: Group) -> str:
    """Return the name of a group's kind and axis in a table of targets.

    Examples
    --------
    >>> regime_of(("any", "extrapolation", "gpu_type")), regime_of(("any", "few-shot", "random"))
    ('transfer gpu_type', 'few-shot')
    """
    _, kind, axis = group
    if kind == "extrapolation":
        return f"{'transfer' if axis.endswith('_type') else 'extrap.'} {axis}"
    return "random 70/30" if kind == "interpolation" else kind


def _mean_error(members: Sequence[Judgement]) -> Goal:
    error = geometric_mean([item.mape for item in members])
    floor = geometric_mean([item.floor for item in members])
    known = sum(np.isfinite(item.floor) for item in members)
    names = ", ".join(sorted({item.data_set for item in members}))
    return Goal(
        f"geometric mean error over {names}",
        f"at most {MAX_GROUP_MAPE:.1%}",
        f"{error:.1%}",
        error <= MAX_GROUP_MAPE,
        f"noise of repetitions alone, {known} of {len(members)} tasks: {floor:.1%}"
        if known
        else "",
    )


def _peer_ratio(peers: Sequence[Judgement]) -> Goal:
    ratio = geometric_mean([item.ratio for item in peers])
    name = f"ratio to the best peer of each of {len(peers)} tasks"
    return Goal(name, f"at most {MAX_PEER_RATIO:.2f}", f"{ratio:.3f}", ratio <= MAX_PEER_RATIO)


def _share_better(peers: Sequence[Judgement]) -> Goal:
    share = float(np.mean([item.ratio < 1 for item in peers]))
    lost = [item for item in peers if item.ratio >= 1]
    near = sum(item.floor_ratio <= AT_THE_FLOOR for item in lost)
    return Goal(
        "better than the best peer",
        f"at least {MIN_SHARE_BETTER:.0%}",
        f"{share:.1%}",
        share >= MIN_SHARE_BETTER,
        f"{near} of {len(lost)} lost tasks are within {AT_THE_FLOOR} of the noise of repetitions",
    )


def _worst(judged: Sequence[Judgement]) -> Goal:
    worst = max(judged, key=lambda item: item.ratio)
    names = ", ".join(sorted({item.data_set for item in judged}))
    return Goal(
        f"worst ratio to the best peer on {names}",
        f"at most {MAX_WORST_RATIO:g}",
        f"{worst.ratio:.2f}",
        worst.ratio <= MAX_WORST_RATIO,
        worst.task,
    )


def _coverages(judgements: Sequence[Judgement]) -> Iterator[Goal]:
    extrapolations = [item for item in judgements if item.kind == "extrapolation"]
    interpolations = [item for item in judgements if item.kind != "extrapolation"]
    for name, members in (
        ("all", judgements),
        ("interpolation", interpolations),
        ("beyond", extrapolations),
    ):
        if members:
            coverage = float(np.mean([item.coverage_90 for item in members]))
            wanted = f"{MIN_COVERAGE:.2f} to {MAX_COVERAGE:.2f}"
            is_met = MIN_COVERAGE <= coverage <= MAX_COVERAGE
            yield Goal(
                f"coverage of the .9 interval, {name}",
                wanted,
                f"{coverage:.3f}",
                is_met,
                f"of the .8 interval {np.mean([item.coverage_80 for item in members]):.3f}",
            )


def _worst_group(judgements: Sequence[Judgement]) -> Goal:
    coverages = {
        group: float(np.mean([item.coverage_90 for item in members]))
        for group, members in groups_of(judgements).items()
    }
    low = {group: value for group, value in coverages.items() if value < MIN_GROUP_COVERAGE}
    named = [f"{' '.join(group)} {value:.2f}" for group, value in sorted(low.items())]
    return Goal(
        f"coverage of the .9 interval, each of {len(coverages)} groups",
        f"at least {MIN_GROUP_COVERAGE:.2f}",
        f"{min(coverages.values()):.3f}",
        not low,
        "; ".join(named),
    )


def _own_error(judgements: Sequence[Judgement]) -> Goal:
    share = float(np.mean([item.has_close_estimate for item in judgements]))
    return Goal(
        "own error within a factor of 2",
        f"at least {MIN_SHARE_KNOWN:.0%}",
        f"{share:.1%}",
        share >= MIN_SHARE_KNOWN,
        "; ".join(_bounds_of_known(judgements)),
    )


def _bounds_of_known(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield what limits that figure: with few test runs, the true error is itself random."""
    yield f"exactly calibrated forecasts would know {attainable_share(judgements):.1%}"
    many = [item for item in judgements if item.n_test >= MANY_TEST_RUNS]
    if many:
        share = float(np.mean([item.has_close_estimate for item in many]))
        yield f"{share:.1%} of the {len(many)} tasks with {MANY_TEST_RUNS} test runs or more"


def _medians(judgements: Sequence[Judgement], targets: Targets) -> Goal:
    above: list[str] = []
    judged = 0
    for group, members in groups_of(judgements).items():
        wanted = targets.get((group[0], regime_of(group)))
        if wanted is None:
            continue
        judged += 1
        error = median([item.mape for item in members])
        # The targets are printed with one decimal.
        if round(100 * error, 1) > round(100 * wanted, 1):
            above.append(f"{group[0]} {regime_of(group)} {100 * error:.1f}/{100 * wanted:.1f}")
    return Goal(
        "groups at or below their target median",
        f"{judged} of {judged}",
        f"{judged - len(above)} of {judged}",
        not above,
        "; ".join(above),
    )
