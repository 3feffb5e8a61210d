"""Tables of the comparison: the results of each prior by kind of question and data set."""

from collections.abc import Mapping, Sequence

import numpy as np
from rich.table import Table

from benchmarks.console import table_console
from benchmarks.pooling.arms import ARMS
from benchmarks.pooling.judging import Result

WORSE = 1.25
"""A task whose error is more than a quarter worse than without a prior counts as harmed."""

WIDTH = 110
"""Width of the table in columns where the output is not a terminal."""

COLUMNS = (
    "kind", "data set", "tasks", "prior", "MAPE %", "geo", "cover .9", "width %", "> 25 % worse",
    "fit s",
)  # fmt: skip


def print_results(results: Sequence[Result]) -> None:
    """Print one row per kind of question, data set and prior, then the harm over all kinds."""
    table = Table(*COLUMNS)
    alone = {item.task: item.mape for item in results if item.arm == ARMS[0]}
    for kind in sorted({item.kind for item in results}):
        of_kind = [item for item in results if item.kind == kind]
        for data_set in (*sorted({item.data_set for item in of_kind}), "all"):
            _add_rows(table, of_kind, (kind, data_set), alone)
    _add_rows(table, results, ("all", "all"), alone)
    console = table_console(WIDTH)
    console.print(table)


def _add_rows(
    table: Table, results: Sequence[Result], group: tuple[str, str], alone: Mapping[str, float]
) -> None:
    style = "bold" if group[1] == "all" else ""
    judged = {item.arm for item in results}
    for arm in (arm for arm in ARMS if arm in judged):
        members = [
            item for item in results if item.arm == arm and group[1] in (item.data_set, "all")
        ]
        table.add_row(*group, *_summary(members, arm, alone), style=style)


def _summary(members: Sequence[Result], arm: str, alone: Mapping[str, float]) -> list[str]:
    errors = np.array([item.mape for item in members])
    ratios = errors / np.maximum([alone[item.task] for item in members], 1e-3)
    return [
        str(len(members)),
        arm,
        f"{100 * float(np.median(errors)):.1f}",
        f"{100 * float(np.exp(np.log(np.maximum(errors, 1e-3)).mean())):.1f}",
        f"{100 * float(np.mean([item.coverage_90 for item in members])):.1f}",
        f"{100 * float(np.median([item.width_90 for item in members])):.0f}",
        f"{100 * float((ratios > WORSE).mean()):.0f}",
        f"{float(np.mean([item.fit_seconds for item in members])):.2f}",
    ]
