"""What is known of a workload before a CI report on it arrives."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from app.decisions.drift import thresholds_for
from app.decisions.repetitions import CHANGE_DEVIATION
from app.domain.accuracy import DriftReport
from app.domain.ci import Baseline
from app.domain.errors import (
    FitPendingError,
    NoRegressorError,
    RegressorUnavailableError,
    UnknownWorkloadError,
)
from app.domain.identifiers import ProjectId, Slug
from app.domain.regressors import Publication
from app.domain.runs import Run, RunFilter, RunStatus
from app.domain.workloads import Workload
from app.pricing.resolution import PriceBook
from app.services.context import ServiceContext
from app.services.judging.drift import DriftWatch, Load
from app.services.judging.runs import judge_runs, run_digests
from app.services.served_regressors import ServedRegressor
from app.services.serving import RegressorCache
from app.services.workload_names import nearest_workload
from app.storage.stores import Stores

DRIFT_THRESHOLDS: Final = thresholds_for(0.2, 100, sides=1)
"""Of the drift warning: it fires in about one of five histories of 100 runs without a change."""

_MAX_RUNS: Final = 500
_MAX_ACKNOWLEDGED: Final = 100
_INSTANT: Final = timedelta(microseconds=1)


class VersionLoader:
    """Loads versions of one workload's regressor, each once.

    Parameters
    ----------
    regressors
        The regressors in memory.
    project_id, slug
        The workload.
    """

    def __init__(self, regressors: RegressorCache, project_id: ProjectId, slug: Slug) -> None:
        self._find = partial(regressors.find, project_id, slug)
        self._found: dict[int, ServedRegressor | None] = {}

    def __call__(self, version: int, stores: Stores | None = None) -> ServedRegressor | None:
        """Return a version, None where it cannot be used; `stores` are those of a transaction."""
        if version not in self._found:
            self._found[version] = self._find(version, stores=stores)
        return self._found[version]


@dataclass(frozen=True, slots=True)
class History:
    """A workload's regressors and past before a report.

    Parameters
    ----------
    load
        Loads versions of the workload's regressor.
    book
        The prices of the project.
    workload
        None where the report brings its first runs.
    served
        The published regressor.
    reason
        Why no forecast is possible, where `served` is None.
    publications
        The versions and when they were published, the oldest first.
    baseline
        The instant since which durations count as normal, where somebody acknowledged them.
    past
        The acknowledged runs and the newest later ones that fits may use, the oldest first.
    """

    load: VersionLoader
    book: PriceBook
    workload: Workload | None = None
    served: ServedRegressor | None = None
    reason: str | None = None
    publications: Sequence[Publication] = ()
    baseline: Baseline | None = None
    past: Sequence[Run] = ()

    @property
    def acknowledged_at(self) -> datetime | None:
        """When the durations since the baseline were acknowledged, where somebody did."""
        return None if self.baseline is None else self.baseline.created_at

    def level(self, served: ServedRegressor) -> float:
        """Return the log ratio of observed to forecast duration that is normal for a regressor.

        An acknowledged change stays normal: a fit that has seen only a few runs of it may take them
        for noise. Where the fit follows them, the ratio is 0 by itself. Later runs that it has not
        seen may show later changes; they count only where it is older than the acknowledgement.
        """
        if self.baseline is None:
            return 0.0
        runs = self.past
        if served.fitted_at > self.baseline.created_at:
            until = max(served.seen_until, self.baseline.created_at)
            runs = [run for run in runs if run.created_at <= until]
        return normal_level(runs, served, self.book)

    def drift(self, stores: Stores) -> DriftReport | None:
        """Return whether durations on the base branch creep up, by the runs stored now."""
        if self.workload is None or self.served is None:
            return None
        runs = past_runs(stores, self.workload, self.baseline)
        # The first of them may be newer than before, and be watched by another version.
        return self.drift_of(runs, partial(self.load, stores=stores))

    def drift_of(self, runs: Sequence[Run], load: Load) -> DriftReport | None:
        """Return whether durations creep up in these runs, the oldest first."""
        watch = DriftWatch(
            load,
            self.book,
            DRIFT_THRESHOLDS,
            slower_only=True,
            level=self.level,
            acknowledged_at=self.acknowledged_at,
        )
        return watch.report(runs, run_digests(runs), self.publications)


def read_history(
    context: ServiceContext,
    regressors: RegressorCache,
    book: PriceBook,
    project_id: ProjectId,
    slug: Slug,
) -> History:
    """Return what is known of a workload; it may not exist yet.

    Raises
    ------
    StorageUnavailableError
        If the database does not answer.
    """
    load = VersionLoader(regressors, project_id, slug)
    with context.database.reading() as stores:
        workload = stores.workloads.get(project_id, slug)
        if workload is None:
            return History(load, book, reason=_first_runs(stores, project_id, slug))
        publications = stores.regressors.publications(workload.workload_id)
        baseline = stores.ci.baseline(workload.workload_id)
        runs = past_runs(stores, workload, baseline)
    history = History(load, book, workload, publications=publications, baseline=baseline, past=runs)
    try:
        served = regressors.get(project_id, slug)
    except FitPendingError as error:
        return replace(history, reason=f"No regressor is published yet; a fit is {error.state}.")
    except NoRegressorError:
        return replace(history, reason="No regressor is published yet: ask for a fit.")
    except (UnknownWorkloadError, RegressorUnavailableError) as error:
        return replace(history, reason=str(error))
    history = replace(history, served=served)
    # Load the versions that the watch needs now, while no lock is held.
    history.drift_of(runs, load)
    return history


def _first_runs(stores: Stores, project_id: ProjectId, slug: Slug) -> str:
    """Return why a new workload has no forecast; its name may be misspelt."""
    nearest = nearest_workload(stores, project_id, slug)
    hint = f" There is a workload with nearly the same name, {nearest!r}." if nearest else ""
    return f"These are the first runs of the workload.{hint}"


def past_runs(stores: Stores, workload: Workload, baseline: Baseline | None) -> list[Run]:
    """Return the newest runs since the baseline that fits may use, the oldest first.

    Those that were acknowledged tell what is normal, however many have come since.
    """
    after = None if baseline is None else baseline.since - _INSTANT
    wanted = RunFilter(RunStatus.SUCCEEDED, created_after=after, excluded=False)
    newest = stores.runs.newest_measured(workload, wanted, limit=_MAX_RUNS)
    runs = list(reversed(newest.items))
    if baseline is None or newest.next_key is None:
        return runs
    oldest = stores.runs.oldest_measured(workload, wanted, limit=_MAX_ACKNOWLEDGED)
    acknowledged = [run for run in oldest if run.created_at <= baseline.created_at]
    return [*(run for run in acknowledged if run.run_id < runs[0].run_id), *runs]


def normal_level(runs: Sequence[Run], served: ServedRegressor, book: PriceBook) -> float:
    """Return the mean log ratio of runs to their forecasts, shrunk towards 0 where runs are few."""
    judged = judge_runs(runs, served, book)
    if not judged.rows:
        return 0.0
    weights = 1.0 / judged.log_deviations() ** 2
    total = float(weights.sum()) + 1.0 / CHANGE_DEVIATION**2
    return float((weights * judged.log_ratios()).sum()) / total
