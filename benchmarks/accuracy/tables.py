"""The figures of many judged tasks: a table by group, and means for comparison."""

from collections.abc import Iterator, Sequence

import numpy as np
from rich.table import Table

from benchmarks.accuracy.judging import Judgement

COLUMNS = (
    "data set", "kind", "axis", "tasks", "MAPE %", "mean", "geo", "> 20 % off", "cover .8",
    "cover .9", "width %", "score", "own ok", "fit s", "floor %", "vs floor", "vs peer",
)  # fmt: skip

Group = tuple[str, str, str]


def summary_table(judgements: Sequence[Judgement]) -> Table:
    """Return rows by data set, kind and axis, then by data set, by kind and axis, and overall."""
    table = Table(*COLUMNS)
    for name, members in groups_of(judgements).items():
        table.add_row(*name, *_summary(members))
    for wider in _wider_groups(judgements):
        members = [item for item in judgements if _is_within(item, wider)]
        table.add_row(*wider, *_summary(members), style="bold")
    return table


def groups_of(judgements: Sequence[Judgement]) -> dict[Group, list[Judgement]]:
    """Return the judgements by data set, kind and axis, sorted by name."""
    groups: dict[Group, list[Judgement]] = {}
    for item in sorted(judgements, key=lambda item: item.group):
        groups.setdefault(item.group, []).append(item)
    return groups


def geometric_mean(values: Sequence[float]) -> float:
    """Return the geometric mean of the known values (at least .001 each), NaN without any.

    Examples
    --------
    >>> round(geometric_mean([0.1, 0.4, float("nan")]), 3)
    0.2
    """
    known = [max(value, 1e-3) for value in values if np.isfinite(value)]
    return float(np.exp(np.mean(np.log(known)))) if known else float("nan")


def median(values: Sequence[float]) -> float:
    """Return the median of the known values, NaN without any."""
    known = [value for value in values if np.isfinite(value)]
    return float(np.median(known)) if known else float("nan")


def _wider_groups(judgements: Sequence[Judgement]) -> Iterator[Group]:
    for data_set in sorted({item.data_set for item in judgements}):
        yield (data_set, "", "")
    for kind, axis in sorted({(item.kind, item.axis) for item in judgements}):
        yield ("all", kind, axis)
    for kind in sorted({item.kind for item in judgements}):
        yield ("all", kind, "")
    yield ("all", "", "")


def _is_within(item: Judgement, group: Group) -> bool:
    data_set, kind, axis = group
    return (
        data_set in ("all", item.data_set)
        and kind in ("", item.kind)
        and (not axis or axis == item.axis)
    )


def _summary(members: Sequence[Judgement]) -> list[str]:
    return [
        str(len(members)),
        f"{100 * median([item.mape for item in members]):.1f}",
        f"{100 * float(np.mean([item.mape for item in members])):.1f}",
        f"{100 * geometric_mean([item.mape for item in members]):.1f}",
        f"{100 * float(np.mean([item.off_by_20 for item in members])):.0f}%",
        f"{100 * float(np.mean([item.coverage_80 for item in members])):.1f}",
        f"{100 * float(np.mean([item.coverage_90 for item in members])):.1f}",
        f"{100 * median([item.width_90 for item in members]):.1f}",
        f"{median([item.score_90 for item in members]):.2f}",
        f"{100 * float(np.mean([item.has_close_estimate for item in members])):.0f}%",
        f"{median([item.fit_seconds for item in members]):.2f}",
        f"{100 * median([item.floor for item in members]):.1f}",
        f"{geometric_mean([item.floor_ratio for item in members]):.2f}",
        f"{geometric_mean([item.ratio for item in members]):.2f}",
    ]
