"""Watches whether the durations of a workload's runs have shifted."""

from collections.abc import Callable, Sequence
from datetime import datetime

from app.decisions.drift import DriftScores, chart, score_runs
from app.domain.accuracy import DriftReport
from app.domain.regressors import Publication
from app.domain.runs import Run
from app.services.judging import JudgedRuns, judge_runs
from app.services.serving import ServedRegressor

Load = Callable[[int], ServedRegressor | None]
"""Returns a version of the workload's regressor, None where it cannot be used."""

Level = Callable[[ServedRegressor], float]
"""Returns the log ratio of observed to forecast duration that is normal for a regressor."""


def _no_level(served: ServedRegressor) -> float:  # noqa: ARG001 - one for every regressor
    return 0.0


def version_before(publications: Sequence[Publication], instant: datetime) -> int | None:
    """Return the version that was published before an instant, None without one."""
    versions = [each.version for each in publications if each.published_at < instant]
    return versions[-1] if versions else None


def watch(
    runs: Sequence[Run],
    publications: Sequence[Publication],
    load: Load,
    *,
    threshold: float,
    slower_only: bool = False,
    level: Level = _no_level,
) -> DriftReport | None:
    """Return whether durations have shifted, None where no run can be judged.

    All runs are held against the regressor that answered when the first of them arrived, so that
    fits which follow a slow drift cannot hide it. After an alarm the watch starts anew with the
    next version that is published: that one has seen what happened.

    Parameters
    ----------
    runs
        Succeeded runs of one workload, the oldest first.
    publications
        When which version was published, the oldest first.
    load
        Loads a version.
    threshold
        Of the cumulative sum.
    slower_only
        Whether faster runs are no cause for alarm.
    level
        The log ratio that is normal for a regressor, where somebody acknowledged another than 0.
    """
    while runs:
        version = version_before(publications, runs[0].created_at)
        served = None if version is None else load(version)
        found, until = None, runs[0]
        if served is not None:
            found = _report(runs, served, threshold, level(served), slower_only=slower_only)
            if found is None or found.alarm is None:
                return found
            until = found.alarm
        anew = _next_publication(publications, until.created_at)
        if anew is None:
            return found
        runs = [run for run in runs if run.created_at > anew]
    return None


def _next_publication(publications: Sequence[Publication], after: datetime) -> datetime | None:
    return next((each.published_at for each in publications if each.published_at >= after), None)


def _report(
    runs: Sequence[Run],
    served: ServedRegressor,
    threshold: float,
    normal: float,
    *,
    slower_only: bool,
) -> DriftReport | None:
    judged = judge_runs(runs, served)
    if not judged.rows:
        return None
    seen = [runs[row] for row in judged.rows]
    scores = _scores(seen, judged, served, normal)
    found = chart(scores, threshold, slower_only=slower_only)
    return DriftReport(
        statistic=found.statistic,
        threshold=threshold,
        regressor_version=served.version,
        runs=len(seen),
        change_ratio=found.change_ratio,
        since=seen[found.start] if found.start < len(seen) else None,
        alarm=None if found.first_alarm is None else seen[found.first_alarm],
    )


def _scores(
    seen: Sequence[Run], judged: JudgedRuns, served: ServedRegressor, normal: float
) -> DriftScores:
    numbers: dict[str, int] = {}
    groups = [numbers.setdefault(run.scenario.digest(), len(numbers)) for run in seen]
    noise = served.portfolio.report.noise_floor
    return score_runs(judged.log_ratios() - normal, judged.log_deviations(), groups, noise)
