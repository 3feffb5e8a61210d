"""Watches whether the durations of a workload's runs have shifted."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.decisions.drift import DriftScores, Thresholds, chart, score_runs
from app.domain.accuracy import DriftReport
from app.domain.regressors import Publication
from app.domain.runs import Run
from app.pricing.resolution import PriceBook
from app.services.judging.runs import JudgedRuns, cells_of, judge_runs, since_last_change
from app.services.served_regressors import ServedRegressor

Load = Callable[[int], ServedRegressor | None]
"""Return a version of the workload's regressor, None where it cannot be used."""

Level = Callable[[ServedRegressor], float]
"""Return the log ratio of observed to forecast duration that is normal for a regressor."""


def _no_level(served: ServedRegressor) -> float:  # noqa: ARG001 - one for every regressor
    return 0.0


def version_before(publications: Sequence[Publication], instant: datetime) -> int | None:
    """Return the version published before an instant, None if there is none."""
    versions = [
        publication.version for publication in publications if publication.published_at < instant
    ]
    return versions[-1] if versions else None


@dataclass(frozen=True, slots=True)
class DriftWatch:
    """Tells whether the durations of a workload's runs have shifted.

    Parameters
    ----------
    load
        Loads a version.
    book
        The prices of the project.
    thresholds
        Thresholds of the alarm.
    slower_only
        Whether faster runs raise no alarm.
    level
        The log ratio that is normal for a regressor, where one other than 0 was acknowledged.
    """

    load: Load
    book: PriceBook
    thresholds: Thresholds
    slower_only: bool = False
    level: Level = _no_level

    def report(
        self, runs: Sequence[Run], publications: Sequence[Publication]
    ) -> DriftReport | None:
        """Return whether durations have shifted, None where no run can be judged.

        All runs are compared with the regressor that was published when the first of them arrived,
        so that refits which follow a slow drift cannot hide it. The runs that this regressor was
        fitted on establish what is normal for each configuration, but are not part of the chart.
        After an alarm the watch starts anew with the next published version, which has seen the
        change.

        Parameters
        ----------
        runs
            Succeeded runs of one workload, the oldest first.
        publications
            The versions and when they were published, the oldest first.
        """
        all_runs = runs
        while runs:
            version = version_before(publications, runs[0].created_at)
            served = None if version is None else self.load(version)
            report, last = None, runs[0]
            if served is not None:
                fitted_runs = [run for run in all_runs if run.created_at < runs[0].created_at]
                fitted_runs = [run for run in fitted_runs if run.created_at <= served.fitted_at]
                report = self._report(fitted_runs, runs, served)
                if report is None or report.alarm is None:
                    return report
                last = report.alarm
            next_published_at = _next_publication(publications, last.created_at)
            if next_published_at is None:
                return report
            runs = [run for run in runs if run.created_at > next_published_at]
        return None

    def _report(
        self, fitted_runs: Sequence[Run], runs: Sequence[Run], served: ServedRegressor
    ) -> DriftReport | None:
        before = since_last_change(fitted_runs, served)
        judged = judge_runs([*before, *runs], served, self.book)
        rows = [row - len(before) for row in judged.rows]
        charted = [runs[row] for row in rows if row >= 0]
        if not charted:
            return None
        judged_runs = [[*before, *runs][row] for row in judged.rows]
        learned = len(rows) - len(charted)
        scores = _scores(judged_runs, judged, served, self.level(served), learned=learned)
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


def _next_publication(publications: Sequence[Publication], after: datetime) -> datetime | None:
    return next(
        (
            publication.published_at
            for publication in publications
            if publication.published_at >= after
        ),
        None,
    )


def _scores(
    runs: Sequence[Run],
    judged: JudgedRuns,
    served: ServedRegressor,
    normal: float,
    *,
    learned: int,
) -> DriftScores:
    noise = served.portfolio.report.noise_floor
    ratios = judged.log_ratios() - normal
    return score_runs(ratios, cells_of(runs, judged, {}), noise, learned=learned)
