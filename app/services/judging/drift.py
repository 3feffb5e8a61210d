"""Watches whether the durations of a workload's runs have shifted."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Final

from app.decisions.drift import Thresholds, chart, score_runs
from app.domain.accuracy import DriftReport
from app.domain.identifiers import RunId
from app.domain.regressors import Publication
from app.domain.runs import Run
from app.pricing.resolution import PriceBook
from app.services.judging.runs import cells_of, judge_runs, since_last_change
from app.services.served_regressors import ServedRegressor

Load = Callable[[int], ServedRegressor | None]
"""Return a version of the workload's regressor, None where it cannot be used."""

Level = Callable[[ServedRegressor], float]
"""Return the log ratio of observed to forecast duration that is normal for a regressor."""


MAX_ALARMS: Final = 5
"""The most alarms of one history that are followed one by one."""

MAX_RESTARTS: Final = 50
"""The most versions of one history that are tried one by one."""


def _no_level(served: ServedRegressor) -> float:  # noqa: ARG001 - one for every regressor
    return 0.0


class PublishedVersions:
    """Which version was published when.

    Parameters
    ----------
    publications
        The versions and when they were published, in this order.
    """

    def __init__(self, publications: Sequence[Publication]) -> None:
        self._versions = [publication.version for publication in publications]
        # Clocks differ, so that instants may go back: each counts from the earliest one after it.
        instants = [publication.published_at for publication in reversed(publications)]
        self._earliest_from = list(accumulate(instants, min))[::-1]

    def version_before(self, instant: datetime) -> int | None:
        """Return the version published last before an instant, None if there is none."""
        n_earlier = bisect_left(self._earliest_from, instant)
        return self._versions[n_earlier - 1] if n_earlier else None


@dataclass(frozen=True, slots=True)
class DriftWatch:
    """Tells whether the durations of a workload's runs have shifted.

    Parameters
    ----------
    load
        Loads a version.
    book
        The prices of the project, None where no run needs them (see `need_prices`).
    thresholds
        Thresholds of the alarm.
    slower_only
        Whether faster runs raise no alarm.
    level
        The log ratio that is normal for a regressor, where one other than 0 was acknowledged.
    acknowledged
        The runs that somebody acknowledged, older than all others: they establish what is normal
        for each configuration, but are not part of the chart.
    """

    load: Load
    book: PriceBook | None
    thresholds: Thresholds
    slower_only: bool = False
    level: Level = _no_level
    acknowledged: frozenset[RunId] = frozenset()

    def first_version(self, runs: Sequence[Run], publications: Sequence[Publication]) -> int | None:
        """Return the version that the first watched run is compared with, None without one."""
        watched = self._watched(runs)
        published = PublishedVersions(publications)
        return published.version_before(watched[0].created_at) if watched else None

    def report(
        self, runs: Sequence[Run], digests: Sequence[str], publications: Sequence[Publication]
    ) -> DriftReport | None:
        """Return whether durations have shifted, None where no run can be judged.

        All runs are compared with the regressor that was published when the first of them arrived,
        so that refits which follow a slow drift cannot hide it. The runs that this regressor was
        fitted on establish what is normal for each configuration, but are not part of the chart.
        After an alarm the watch starts anew with the next published version, which has seen the
        change. After `MAX_ALARMS` alarms, or `MAX_RESTARTS` versions of which some cannot be used
        any more, it passes to the newest version that is older than some run: each start takes as
        long as all runs, and what matters is the present.

        Parameters
        ----------
        runs
            Succeeded runs of one workload, the oldest first.
        digests
            The digests of their scenarios.
        publications
            The versions and when they were published, the oldest first.
        """
        all_runs, published = runs, PublishedVersions(publications)
        digest_of_run = dict(zip((run.run_id for run in runs), digests, strict=True))
        runs = self._watched(runs)
        n_alarms = n_restarts = 0
        while runs:
            version = published.version_before(runs[0].created_at)
            served = None if version is None else self.load(version)
            report, last = None, runs[0]
            if served is not None:
                earlier = [run for run in all_runs if run.created_at < runs[0].created_at]
                normal_runs = [
                    run
                    for run in earlier
                    if run.created_at <= served.seen_until or run.run_id in self.acknowledged
                ]
                report = self._report(normal_runs, runs, served, digest_of_run)
                if report is None or report.alarm is None:
                    return report
                last, n_alarms = report.alarm, n_alarms + 1
            n_restarts += 1
            goes_on = n_alarms < MAX_ALARMS and n_restarts < MAX_RESTARTS
            restart_at = _restart(publications, last, None if goes_on else runs[-1])
            if restart_at is None:
                return report
            runs = [run for run in runs if run.created_at > restart_at]
        return None

    def _watched(self, runs: Sequence[Run]) -> list[Run]:
        return [run for run in runs if run.run_id not in self.acknowledged]

    def _report(
        self,
        normal_runs: Sequence[Run],
        runs: Sequence[Run],
        served: ServedRegressor,
        digests: Mapping[RunId, str],
    ) -> DriftReport | None:
        before = since_last_change(normal_runs, served)
        watched = [*before, *runs]
        judged = judge_runs(watched, served, self.book)
        rows = [row - len(before) for row in judged.rows]
        charted = [runs[row] for row in rows if row >= 0]
        if not charted:
            return None
        learned = len(rows) - len(charted)
        acknowledged = sum(
            watched[row].run_id in self.acknowledged for row in judged.rows[:learned]
        )
        cells = cells_of([digests[watched[row].run_id] for row in judged.rows], judged, {})
        ratios = judged.log_ratios() - self.level(served)
        noise = served.portfolio.report.noise_floor
        scores = score_runs(ratios, cells, noise, learned=learned, acknowledged=acknowledged)
        result = chart(scores, self.thresholds, slower_only=self.slower_only)
        return DriftReport(
            statistic=result.statistic,
            threshold=result.threshold,
            regressor_version=served.version,
            runs=len(charted),
            changed_runs=len(charted) - result.start,
            change_ratio=result.change_ratio,
            since=charted[result.start] if result.start < len(charted) else None,
            alarm=None if result.first_alarm is None else charted[result.first_alarm],
        )


def _restart(publications: Sequence[Publication], last: Run, newest: Run | None) -> datetime | None:
    """Return when the next version was published after a run, None if none was.

    If `newest` is given: when the last one before that run was published, if there is one.
    """
    instants = [
        publication.published_at
        for publication in publications
        if publication.published_at >= last.created_at
    ]
    if newest is not None:
        earlier = [instant for instant in instants if instant < newest.created_at]
        instants = earlier[-1:] or instants
    return next(iter(instants), None)
