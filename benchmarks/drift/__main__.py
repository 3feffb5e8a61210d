"""How often the drift alarm is false, and how soon it is raised.

Histories of log ratios of observed to forecast duration are simulated, with an error of the
regressor for each configuration and noise from run to run. Configurations come in random order or
one after another.

    python -m benchmarks.drift --histories 400
"""

import argparse
from dataclasses import dataclass

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from app.decisions.drift import DriftScores, chart, score_runs
from app.decisions.repetitions import Cell
from app.services.accuracy import DRIFT_THRESHOLDS
from app.services.judging.history import DRIFT_THRESHOLDS as CI_THRESHOLDS

_NOISE = _ERROR = 0.03
_RUNS = 2000
_SHIFT_AT = 100
_SOON = 20


@dataclass(frozen=True, slots=True)
class History:
    """A simulated history: a fit on `learned` of its runs, and a shift at `shift_at`."""

    runs: int
    configurations: int = 12
    is_blocked: bool = False
    shift: float = 1.0
    shift_at: int = _SHIFT_AT
    learned: int = 0

    def scores(self, rng: np.random.Generator) -> DriftScores:
        """Return the evidence of a change from its runs."""
        errors = rng.normal(0.0, _ERROR, self.configurations)
        groups = rng.integers(0, self.configurations, self.runs)
        groups = np.sort(groups) if self.is_blocked else groups
        ratios = errors[groups] + rng.normal(0.0, _NOISE, self.runs)
        ratios[self.shift_at :] += np.log(self.shift)
        scale = float(np.hypot(_NOISE, _ERROR))
        cells = [Cell(group, scale) for group in groups.tolist()]
        return score_runs(ratios, cells, None, learned=self.learned)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m benchmarks.drift")
    parser.add_argument("--histories", type=int, default=400, help="simulated histories a line")
    histories = parser.parse_args().histories
    table = Table(title=f"Drift alarm, noise {_NOISE:.0%}, error of a configuration {_ERROR:.0%}")
    for name in ("history", "configurations", "order", "alarms"):
        table.add_column(name, justify="right" if name == "alarms" else "left")
    for configurations in (1, 6, 40, 400):
        for is_blocked in (False, True):
            rng = np.random.default_rng(1)
            history = History(_RUNS, configurations, is_blocked)
            alarms = [
                chart(history.scores(rng), DRIFT_THRESHOLDS).has_alarm
                for _ in track(range(histories), transient=True)
            ]
            order = "one by one" if is_blocked else "random"
            share = f"{np.mean(alarms):.1%}"
            table.add_row(f"{_RUNS} runs, no change", str(configurations), order, share)
    for shift in (1.1, 1.2):
        share = f"{_share_found_soon(histories, shift):.1%}"
        table.add_row(f"{shift - 1:+.0%} after {_SHIFT_AT} runs", "12", f"within {_SOON}", share)
    share = f"{_share_found_by_ci(histories):.1%}"
    table.add_row("CI: +3% after 30 fitted and 20 more", "12", f"within {_SOON}", share)
    Console().print(table)


def _share_found_soon(histories: int, shift: float) -> float:
    rng, history = np.random.default_rng(2), History(_SHIFT_AT + _SOON, shift=shift)
    charts = [chart(history.scores(rng), DRIFT_THRESHOLDS) for _ in range(histories)]
    return float(np.mean([(result.first_alarm or 0) >= _SHIFT_AT for result in charts]))


def _share_found_by_ci(histories: int) -> float:
    rng, history = np.random.default_rng(3), History(70, shift=1.03, shift_at=50, learned=30)
    charts = [chart(history.scores(rng), CI_THRESHOLDS, slower_only=True) for _ in range(histories)]
    return float(np.mean([result.has_alarm for result in charts]))


if __name__ == "__main__":
    main()
