"""The use case of checking whether forecasts came true."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.decisions.drift import thresholds_for
from app.domain.accuracy import LEVELS, AccuracyFigures, AccuracyReport, ForecastSource
from app.domain.flat_fields import contradictions
from app.domain.forecasts import RecordedForecast, SpotTerms
from app.domain.identifiers import ProjectId, RunId, Slug
from app.domain.regressors import Publication
from app.domain.runs import Run, RunFilter, RunStatus
from app.pricing.gpus import may_be_same_gpu
from app.pricing.resolution import PriceBook
from app.services.answering.interruptions import with_interruptions
from app.services.context import ServiceContext
from app.services.judging.drift import DriftWatch, Load, PublishedVersions
from app.services.judging.runs import judge_runs, need_prices, run_digests
from app.services.ledger import LedgerWriter
from app.services.prices import PriceService
from app.services.served_regressors import ServedRegressor
from app.services.serving import RegressorCache
from app.services.workload_names import require_workload
from models import FloatArray

MAX_RUNS: Final = 10_000
"""The most runs of a window that are examined, newest first."""

MAX_VERSIONS: Final = 50
"""The most regressor versions that runs are compared with, newest first."""

_CLOCKS_DIFFER: Final = timedelta(minutes=1)
"""How far the instants of a forecast and of its identifier may lie apart."""

_MAX_LOG_ERROR: Final = 100.0
"""Errors are capped at this: a run may take next to no time."""

DRIFT_THRESHOLDS: Final = thresholds_for(0.005, 2000)
"""Of the drift alarm, false in about 1 of 100 histories of 2,000 runs with these.

Half of these are due to the thresholds, the rest to the estimated noise (`benchmarks.drift`).
"""


@dataclass(frozen=True, slots=True)
class _EarlierForecast:
    """The forecast that a run is compared with, and the interruptions that it expected."""

    version: int
    source: ForecastSource
    interruptions: SpotTerms | None = None


@dataclass(frozen=True, slots=True)
class _Timeline:
    """Recorded forecasts of one scenario in the order in which they were made."""

    created_at: list[datetime] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def add(self, forecast: RecordedForecast) -> None:
        self.created_at.append(forecast.created_at)
        self.versions.append(forecast.regressor_version)

    def version_between(self, since: datetime, until: datetime) -> int | None:
        """Return the version that answered last from an instant on and before another one."""
        last = bisect_left(self.created_at, until) - 1
        return self.versions[last] if last >= bisect_left(self.created_at, since) else None


@dataclass(frozen=True, slots=True)
class _Judged:
    """Runs beside their earlier forecasts, each array of shape (n,) or (levels, n)."""

    run_ids: Sequence[RunId]
    errors: FloatArray
    covered: NDArray[np.bool_]
    widths: FloatArray
    within_range: NDArray[np.bool_]


class AccuracyService:
    """Compares runs with the forecasts that were made before them.

    Parameters
    ----------
    context
        The surroundings of the service.
    regressors
        The regressors in memory.
    prices
        The prices of the projects.
    ledger
        Holds the recorded forecasts that are still to be written.
    """

    def __init__(
        self,
        context: ServiceContext,
        regressors: RegressorCache,
        prices: PriceService,
        ledger: LedgerWriter,
    ) -> None:
        self._context = context
        self._regressors = regressors
        self._prices = prices
        self._ledger = ledger

    def accuracy(self, project_id: ProjectId, slug: Slug, window: timedelta) -> AccuracyReport:
        """Return how the runs that arrived in a window compare with earlier forecasts.

        Raises
        ------
        UnknownWorkloadError
            If the project has no such workload.
        StorageUnavailableError
            If the database does not answer.
        """
        self._ledger.flush()
        end = self._context.now()
        start = end - window
        wanted = RunFilter(RunStatus.SUCCEEDED, created_after=start, excluded=False)
        with self._context.database.reading() as stores:
            workload = require_workload(stores, project_id, slug)
            page = stores.runs.newest_measured(workload, wanted, limit=MAX_RUNS)
            runs = list(reversed(page.items))
            digests = run_digests(runs)
            publications = stores.regressors.publications(workload.workload_id)
            recorded = stores.forecasts.recorded(
                workload.workload_id,
                sorted({run.forecast_id for run in runs if run.forecast_id is not None}),
                sorted(set(digests)),
                since=start - _CLOCKS_DIFFER,
            )
            power = stores.runs.measured_power(workload.workload_id)
        load = partial(self._regressors.find, project_id, slug, power=power)
        earlier = _newest_versions(_earlier_forecasts(runs, digests, recorded, publications, start))
        book = self._prices.book(project_id) if need_prices(runs) else None
        judged = _judge(runs, earlier, load, book)
        by_source = {run_id: forecast.source for run_id, forecast in earlier.items()}
        return AccuracyReport(
            workload=slug,
            start=start,
            end=end,
            not_judged=len(runs) - len(judged.run_ids),
            is_truncated=page.next_key is not None,
            overall=_figures(judged, np.ones(len(judged.run_ids), dtype=np.bool_)),
            within_range=_figures(judged, judged.within_range),
            outside_range=_figures(judged, ~judged.within_range),
            by_source=_by_source(judged, by_source),
            drift=DriftWatch(load, book, DRIFT_THRESHOLDS).report(runs, digests, publications),
        )


def _earlier_forecasts(
    runs: Sequence[Run],
    digests: Sequence[str],
    recorded: Sequence[RecordedForecast],
    publications: Sequence[Publication],
    start: datetime,
) -> dict[RunId, _EarlierForecast]:
    by_id = {forecast.forecast_id: forecast for forecast in recorded}
    timelines: defaultdict[str | None, _Timeline] = defaultdict(_Timeline)
    for forecast in recorded:
        timelines[forecast.scenario_sha256].add(forecast)
    published = PublishedVersions(publications)
    earlier: dict[RunId, _EarlierForecast] = {}
    previous = _previous_arrivals(runs, digests, start)
    for run, digest, since in zip(runs, digests, previous, strict=True):
        named = by_id.get(run.forecast_id) if run.forecast_id is not None else None
        if named is not None and _is_of(named, run):
            earlier[run.run_id] = _EarlierForecast(
                named.regressor_version, ForecastSource.NAMED, named.interruptions
            )
            continue
        version = timelines[digest].version_between(since, run.created_at)
        source = ForecastSource.MATCHED
        if version is None:
            version = published.version_before(run.created_at)
            source = ForecastSource.STANDING
        if version is not None:
            earlier[run.run_id] = _EarlierForecast(version, source)
    return earlier


def _is_of(forecast: RecordedForecast, run: Run) -> bool:
    """Whether a run does what a forecast was asked for, as far as both say."""
    asked = forecast.asked
    return asked is None or not contradictions(asked, run.scenario, may_be_same_gpu)


def _previous_arrivals(
    runs: Sequence[Run], digests: Sequence[str], start: datetime
) -> Iterator[datetime]:
    """Yield when the run of the same scenario before each run arrived, `start` for the first.

    A forecast is compared with the runs that arrive next. A question that was asked once would
    otherwise decide for ever how runs of it are judged, though regressors since then answer it
    differently. Runs of one instant arrive together.
    """
    arrivals: dict[str, tuple[datetime, datetime]] = {}
    for run, digest in zip(runs, digests, strict=True):
        previous, latest = arrivals.get(digest, (start, start))
        if run.created_at != latest:
            previous, latest = latest, run.created_at
            arrivals[digest] = previous, latest
        yield previous


def _newest_versions(earlier: dict[RunId, _EarlierForecast]) -> dict[RunId, _EarlierForecast]:
    versions = sorted({forecast.version for forecast in earlier.values()}, reverse=True)
    newest = frozenset(versions[:MAX_VERSIONS])
    return {run_id: forecast for run_id, forecast in earlier.items() if forecast.version in newest}


def _judge(
    runs: Sequence[Run],
    earlier: Mapping[RunId, _EarlierForecast],
    load: Load,
    book: PriceBook | None,
) -> _Judged:
    groups: defaultdict[int, list[Run]] = defaultdict(list)
    for run in runs:
        if run.run_id in earlier:
            groups[earlier[run.run_id].version].append(run)
    parts = [
        _judge_by(group, earlier, served, book)
        for version, group in groups.items()
        if (served := load(version)) is not None
    ]
    parts.append(_none_judged())
    return _Judged(
        [run_id for part in parts for run_id in part.run_ids],
        np.concatenate([part.errors for part in parts]),
        np.concatenate([part.covered for part in parts], axis=1),
        np.concatenate([part.widths for part in parts], axis=1),
        np.concatenate([part.within_range for part in parts]),
    )


def _none_judged() -> _Judged:
    levels = np.empty((len(LEVELS), 0))
    nothing = np.empty(0)
    return _Judged([], nothing, levels > 0, levels, nothing > 0)


def _judge_by(
    runs: Sequence[Run],
    earlier: Mapping[RunId, _EarlierForecast],
    served: ServedRegressor,
    book: PriceBook | None,
) -> _Judged:
    judged = judge_runs(runs, served, book)
    if not judged.rows:
        return _none_judged()
    run_ids = [runs[row].run_id for row in judged.rows]
    spot = {
        place: (terms, 1)
        for place, run_id in enumerate(run_ids)
        if (terms := earlier[run_id].interruptions) is not None
    }
    forecast, _ = with_interruptions(judged.forecast, spot)
    medians, observed = forecast.median(), judged.observed_seconds
    bounds = [forecast.interval(level) for level in LEVELS]
    supports = served.portfolio.support(judged.features)
    return _Judged(
        run_ids=run_ids,
        errors=np.expm1(np.minimum(np.log(medians) - np.log(observed), _MAX_LOG_ERROR)),
        covered=np.array([(low <= observed) & (observed <= high) for low, high in bounds]),
        widths=np.array([(high - low) / medians for low, high in bounds]),
        within_range=np.array([support.within_range for support in supports], dtype=np.bool_),
    )


def _figures(judged: _Judged, mask: NDArray[np.bool_]) -> AccuracyFigures | None:
    if not mask.any():
        return None
    errors = judged.errors[mask]
    names = [f"{level:g}" for level in LEVELS]
    coverage = judged.covered[:, mask].mean(axis=1).tolist()
    widths = np.median(judged.widths[:, mask], axis=1).tolist()
    return AccuracyFigures(
        runs=len(errors),
        mape=float(np.abs(errors).mean()),
        bias=float(errors.mean()),
        coverage=dict(zip(names, coverage, strict=True)),
        median_width=dict(zip(names, widths, strict=True)),
    )


def _by_source(
    judged: _Judged, sources: Mapping[RunId, ForecastSource]
) -> dict[ForecastSource, AccuracyFigures]:
    by_source = {}
    for source in ForecastSource:
        mask = np.array([sources[run_id] is source for run_id in judged.run_ids], dtype=np.bool_)
        figures = _figures(judged, mask)
        if figures is not None:
            by_source[source] = figures
    return by_source
