"""The runs that tell what is normal: acknowledged ones and the newest since."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from statistics import mean
from typing import Final

import numpy as np

from app.decisions.repetitions import CHANGE_DEVIATION
from app.domain.ci import Baseline
from app.domain.identifiers import RunId
from app.domain.runs import Run, RunFilter, RunStatus
from app.domain.workloads import Workload
from app.pricing.resolution import PriceBook
from app.services.judging.runs import JudgedRuns, judge_runs, run_digests
from app.services.served_regressors import ServedRegressor
from app.storage.stores import Stores

MAX_BASELINES: Final = 10
"""The most acknowledgements that are looked at, the latest ones."""

_MAX_RUNS: Final = 500


@dataclass(frozen=True, slots=True)
class Past:
    """The runs that tell what is normal, the oldest first.

    Parameters
    ----------
    runs
        Those of acknowledged reports, then the newest since the latest acknowledgement.
    acknowledged
        Which of them were acknowledged: those of each configuration with the latest report that
        brought it.
    earlier
        Which of these were acknowledged earlier than the latest ones.
    acknowledged_at
        When durations were acknowledged last, None where nobody did.
    """

    runs: Sequence[Run] = ()
    acknowledged: frozenset[RunId] = frozenset()
    earlier: frozenset[RunId] = frozenset()
    acknowledged_at: datetime | None = None

    def level(self, served: ServedRegressor, book: PriceBook) -> float:
        """Return the log ratio of observed to forecast duration that is normal for a regressor.

        An acknowledged change stays normal: a fit that has seen only a few runs of it may take them
        for noise. Where the fit follows them, the ratio is 0 by itself. Later runs that it has not
        seen may show later changes: they count only where it is older than the acknowledgement, and
        for no slower than the slowest that was acknowledged.
        """
        if self.acknowledged_at is None:
            return 0.0
        runs = [run for run in self.runs if run.run_id not in self.earlier]
        if served.fitted_at > self.acknowledged_at:
            until = max(served.seen_until, self.acknowledged_at)
            runs = [run for run in runs if run.created_at <= until]
            return _shrunk_mean(judge_runs(runs, served, book))
        judged = judge_runs(runs, served, book)
        is_acknowledged = [runs[row].run_id in self.acknowledged for row in judged.rows]
        slowest = judged.log_ratios()[is_acknowledged].max(initial=0.0)
        return _shrunk_mean(judged, slowest)

    def seen_by(self, served: ServedRegressor, book: PriceBook) -> "Past":
        """Return the past without what the latest acknowledgement has overtaken.

        A configuration that it did not bring may have changed as those that it brought, or not at
        all. The longer duration is normal: that of an earlier acknowledgement counts only where
        the regressor and the latest change explain less.
        """
        earlier = [run for run in self.runs if run.run_id in self.earlier]
        if not earlier:
            return self
        judged, digests = judge_runs(earlier, served, book), run_digests(earlier)
        ratios: defaultdict[str, list[float]] = defaultdict(list)
        for row, ratio in zip(judged.rows, judged.log_ratios().tolist(), strict=True):
            ratios[digests[row]].append(ratio)
        level = self.level(served, book)
        overtaken = {digest for digest, of_digest in ratios.items() if mean(of_digest) <= level}
        left_out = {
            run.run_id for run, digest in zip(earlier, digests, strict=True) if digest in overtaken
        }
        return replace(
            self,
            runs=[run for run in self.runs if run.run_id not in left_out],
            acknowledged=self.acknowledged - left_out,
            earlier=self.earlier - left_out,
        )


def past_runs(stores: Stores, workload: Workload, baselines: Sequence[Baseline]) -> Past:
    """Return the runs that tell what is normal, of those that fits may use.

    Of the runs until the latest acknowledgement, only acknowledged ones count: the others, of the
    base branch while a change waits in a branch, are as fast as before it.

    Parameters
    ----------
    stores
        Those of a transaction.
    workload
        The workload.
    baselines
        What was acknowledged, the latest last.
    """
    wanted = RunFilter(RunStatus.SUCCEEDED, excluded=False)
    if not baselines:
        newest = stores.runs.newest_measured(workload, wanted, limit=_MAX_RUNS)
        return Past(newest.items[::-1])
    latest_at = baselines[-1].created_at
    # Runs arrive with an instant of their own; one that is acknowledged again counts as the later.
    orders = {baseline.since: order for order, baseline in enumerate(baselines)}
    found = stores.runs.measured_at(workload, wanted, orders, limit=_MAX_RUNS)
    digests = run_digests(found)
    latest: dict[str, int] = {}
    for run, digest in zip(found, digests, strict=True):
        order = orders[run.created_at]
        latest[digest] = max(latest.get(digest, order), order)
    acknowledged = [
        run
        for run, digest in zip(found, digests, strict=True)
        if orders[run.created_at] == latest[digest]
    ]
    earlier = [
        run.run_id
        for run in acknowledged
        if baselines[orders[run.created_at]].created_at < latest_at
    ]
    since = replace(wanted, created_after=latest_at)
    newest = stores.runs.newest_measured(workload, since, limit=_MAX_RUNS)
    return Past(
        [*acknowledged, *reversed(newest.items)],
        frozenset(run.run_id for run in acknowledged),
        frozenset(earlier),
        latest_at,
    )


def _shrunk_mean(judged: JudgedRuns, slowest: float = inf) -> float:
    """Return the mean log ratio of runs to their forecasts, shrunk towards 0 where runs are few.

    Ratios beyond `slowest` count as this one.
    """
    if not judged.rows:
        return 0.0
    ratios = np.minimum(judged.log_ratios(), slowest)
    weights = 1.0 / judged.log_deviations() ** 2
    return float((weights * ratios).sum()) / (float(weights.sum()) + 1.0 / CHANGE_DEVIATION**2)
