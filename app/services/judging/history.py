"""What is known of a workload before a CI report on it arrives."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from app.decisions.drift import thresholds_for
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
from app.domain.workloads import Workload
from app.pricing.resolution import PriceBook
from app.services.context import ServiceContext
from app.services.judging.drift import DriftWatch, Load
from app.services.judging.past import MAX_BASELINES, Past, past_runs
from app.services.judging.runs import run_digests
from app.services.served_regressors import ServedRegressor
from app.services.serving import RegressorCache
from app.services.workload_names import nearest_workload
from app.storage.stores import Stores

DRIFT_THRESHOLDS: Final = thresholds_for(0.2, 100, sides=1)
"""Of the drift warning: it fires in about one of five histories of 100 runs without a change."""


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
    baselines
        What was acknowledged, the latest last.
    past
        The runs that tell what is normal.
    """

    load: VersionLoader
    book: PriceBook
    workload: Workload | None = None
    served: ServedRegressor | None = None
    reason: str | None = None
    publications: Sequence[Publication] = ()
    baselines: Sequence[Baseline] = ()
    past: Past = field(default_factory=Past)

    def level(self, served: ServedRegressor) -> float:
        """Return the log ratio of observed to forecast duration that is normal for a regressor."""
        return self.past.level(served, self.book)

    def drift(self, stores: Stores) -> DriftReport | None:
        """Return whether durations on the base branch creep up, by the runs stored now."""
        if self.workload is None or self.served is None:
            return None
        past = past_runs(stores, self.workload, self.baselines).seen_by(self.served, self.book)
        # The first of them may be newer than before, and be watched by another version.
        watch = self._watch(past, partial(self.load, stores=stores))
        return watch.report(past.runs, run_digests(past.runs), self.publications)

    def prepare_drift(self) -> None:
        """Load the version that `drift` begins with, while no lock is held.

        It needs others only after alarms.
        """
        watch = self._watch(self.past, self.load)
        version = watch.first_version(self.past.runs, self.publications)
        if self.served is not None and version is not None:
            self.load(version)

    def _watch(self, past: Past, load: Load) -> DriftWatch:
        return DriftWatch(
            load,
            self.book,
            DRIFT_THRESHOLDS,
            slower_only=True,
            level=self.level,
            acknowledged=past.acknowledged,
        )


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
        baselines = stores.ci.baselines(workload.workload_id, limit=MAX_BASELINES)
        past = past_runs(stores, workload, baselines)
    history = History(load, book, workload, publications=publications, baselines=baselines)
    try:
        served = regressors.get(project_id, slug)
    except FitPendingError as error:
        return replace(history, reason=f"No regressor is published yet; a fit is {error.state}.")
    except NoRegressorError:
        return replace(history, reason="No regressor is published yet: ask for a fit.")
    except (UnknownWorkloadError, RegressorUnavailableError) as error:
        return replace(history, reason=str(error))
    return replace(history, served=served, past=past.seen_by(served, book))


def _first_runs(stores: Stores, project_id: ProjectId, slug: Slug) -> str:
    """Return why a new workload has no forecast; its name may be misspelt."""
    nearest = nearest_workload(stores, project_id, slug)
    hint = f" There is a workload with nearly the same name, {nearest!r}." if nearest else ""
    return f"These are the first runs of the workload.{hint}"
