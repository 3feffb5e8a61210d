"""Ask fits, and an obvious baseline regression, which configurations run out of memory.

Simulated trainings (see worlds.py) are tried on random configurations. Each judge learns from their
outcomes, or from outcomes and measured peaks, and gives the probability that others fit.

    python -m benchmarks.feasibility [--worlds 20] [--runs 4 8 16 32 64]
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from benchmarks.console import table_console
from benchmarks.feasibility.worlds import GIB, KINDS, MEMORY_GIB, Runs, World, hardware
from models import FloatArray
from models.accelerator_memory.fit import fit_memory_law

N_QUESTIONS = 200
SURE = 0.9
MIN_PROBABILITY = 1e-3

Judge = Callable[[Runs, Runs, bool], FloatArray]

_ALL: Final = "all"
_WIDTH: Final = 140
"""Columns of the table where it is not shown on a terminal."""


@dataclass(frozen=True, slots=True)
class Result:
    """One judge's result on one world: probabilities, true outcomes, seconds of the fit."""

    kind: str
    n_runs: int
    measured: bool
    judge: str
    chances: FloatArray
    fits: FloatArray
    seconds: float


def main() -> None:
    """Judge and print."""
    arguments = _parse()
    cases = [
        (kind, n_runs, measured, world)
        for kind in KINDS
        for measured in (False, True)
        for n_runs in arguments.runs
        for world in range(arguments.worlds)
    ]
    results = [
        result
        for case in track(cases, console=Console(stderr=True))
        for result in judge_world(*case)
    ]
    console = table_console(_WIDTH)
    console.print(table_of(results))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.feasibility",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--worlds", type=int, default=20, help="trainings of each kind")
    parser.add_argument("--runs", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    return parser.parse_args()


def judge_world(kind: str, n_runs: int, measured: bool, seed: int) -> list[Result]:  # noqa: FBT001 - a case of a product
    """Return the judges' results on `N_QUESTIONS` configurations of one world after `n_runs`."""
    world = World(kind, seed)
    train, test = world.runs(n_runs, seed=2 * seed), world.runs(N_QUESTIONS, seed=2 * seed + 1)
    fits = (~test.is_out).astype(np.float64)
    results = []
    for name, judge in JUDGES.items():
        start = time.perf_counter()
        probability = judge(train, test, measured)
        seconds = time.perf_counter() - start
        results.append(Result(kind, n_runs, measured, name, probability, fits, seconds))
    return results


def trainfare(train: Runs, test: Runs, measured: bool) -> FloatArray:  # noqa: FBT001 - a Judge
    """Return the probabilities of the memory law."""
    law = fit_memory_law(train.evidence(measured=measured), hardware())
    if law is None:
        return np.full(test.features.n_rows, 0.5)
    return law.feasibility(test.features).probability


def regression(train: Runs, test: Runs, measured: bool) -> FloatArray:  # noqa: FBT001 - a Judge
    """Return those of a log-linear model: logistic, or ridge on the peaks if measured."""
    scaler = StandardScaler().fit(_columns(train))
    known, questions = scaler.transform(_columns(train)), scaler.transform(_columns(test))
    share = (float((~train.is_out).sum()) + 1) / (len(train.is_out) + 2)
    kept = ~train.is_out
    if measured and kept.sum() > 1:
        headroom = np.log(_limits(train) / train.peak_bytes)[kept]
        model = Ridge(alpha=0.1).fit(known[kept], headroom)
        sd = float(np.std(headroom - model.predict(known[kept]))) + 0.05
        return np.asarray(stats.norm.cdf(model.predict(questions) / sd), dtype=np.float64)
    if train.is_out.all() or kept.all():
        return np.full(test.features.n_rows, share)
    model = LogisticRegression().fit(known, kept)
    return np.asarray(model.predict_proba(questions)[:, 1], dtype=np.float64)


JUDGES: dict[str, Judge] = {"trainfare": trainfare, "regression": regression}


def _limits(runs: Runs) -> FloatArray:
    return np.array([GIB * MEMORY_GIB[str(name)] for name in runs.features.categorical["gpu_type"]])


def _columns(runs: Runs) -> FloatArray:
    numeric = runs.features.numeric
    local = numeric["batch_size"] / numeric["workers"]
    precision = [level == "bf16" for level in runs.features.categorical["param.precision"]]
    sizes = [np.log(numeric[name]) for name in sorted(numeric) if name != "batch_size"]
    return np.column_stack([*sizes, np.log(local), np.log(_limits(runs)), precision])


def table_of(results: Sequence[Result]) -> Table:
    """Return one row for each kind of training and all, evidence, number of runs and judge."""
    table = Table("training", "evidence", "runs", "judge", "right", "Brier", "log loss")
    for title in (f"fit of those said to, at {SURE:.0%}", "said so", "run out where said so", "s"):
        table.add_column(title)
    groups: dict[tuple[str, bool, int, str], list[Result]] = {}
    for kind in (*KINDS, _ALL):
        for result in results:
            if kind in (result.kind, _ALL):
                key = (kind, result.measured, result.n_runs, result.judge)
                groups.setdefault(key, []).append(result)
    for (kind, measured, n_runs, judge), group in groups.items():
        right, brier, loss, *shares = scores_of(group)
        table.add_row(
            *(kind, "peaks" if measured else "outcomes", str(n_runs), judge),
            *(f"{right:.1%}", f"{brier:.3f}", f"{loss:.3f}"),
            *("-" if np.isnan(share) else f"{share:.1%}" for share in shares),
            f"{float(np.median([result.seconds for result in group])):.3f}",
        )
    return table


def scores_of(results: Sequence[Result]) -> tuple[float, float, float, float, float, float]:
    """Return the accuracy at .5, Brier score, log loss and three shares of confident statements.

    These are: the share that fitted of those said to fit, the share about which either was said,
    and the share that ran out of memory of those said not to fit; NaN where nothing was said.
    """
    probability = np.concatenate([result.chances for result in results])
    fits = np.concatenate([result.fits for result in results])
    bounded = np.clip(probability, MIN_PROBABILITY, 1 - MIN_PROBABILITY)
    loss = -np.log(np.where(fits == 1, bounded, 1 - bounded)).mean()
    sure, refused = probability >= SURE, probability <= 1 - SURE
    return (
        float(((probability > 0.5) == fits).mean()),  # noqa: PLR2004 - more likely than not
        float(((probability - fits) ** 2).mean()),
        float(loss),
        float(fits[sure].mean()) if sure.any() else float("nan"),
        float((sure | refused).mean()),
        float(1 - fits[refused].mean()) if refused.any() else float("nan"),
    )


if __name__ == "__main__":
    main()
