"""The watch over durations: the versions in time, and what many alarms cost."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.accuracy import DriftReport
from app.domain.configurations import Configuration, Scenario, Work
from app.domain.identifiers import RunId, Slug, new_identifier
from app.domain.regressors import Publication
from app.domain.runs import Run, RunStatus
from app.services.accuracy import DRIFT_THRESHOLDS
from app.services.judging import drift
from app.services.judging.drift import DriftWatch, PublishedVersions
from app.services.judging.history import DRIFT_THRESHOLDS as CI_THRESHOLDS
from app.services.judging.runs import run_digests, since_last_change
from app.services.served_regressors import ServedRegressor
from app.services.wiring import Services
from tests.support.regressors import law_seconds, publish_regressor

HOUR = timedelta(hours=1)


@pytest.fixture
def served(services: Services) -> ServedRegressor:
    publish_regressor(services)
    return services.regressor_cache.get(DEFAULT_PROJECT, Slug("fitted"))


def rising_runs(start: datetime, count: int) -> list[Run]:
    """Return one run an hour, each day slower by half than the day before."""
    instants = [start + number * HOUR for number in range(1, count + 1)]
    return [
        Run(
            run_id=RunId(new_identifier("run", now=instant)),
            workload=Slug("fitted"),
            status=RunStatus.SUCCEEDED,
            duration_seconds=law_seconds(4, 2000.0) * 1.5 ** (number // 24),
            scenario=Scenario(Configuration("T4", workers=4), Work(2000.0), {"precision": "fp16"}),
            created_at=instant,
        )
        for number, instant in enumerate(instants)
    ]


def _report(
    watch: DriftWatch, runs: list[Run], publications: list[Publication]
) -> DriftReport | None:
    return watch.report(runs, run_digests(runs), publications)


def daily(start: datetime, count: int) -> list[Publication]:
    return [Publication(start + number * 24 * HOUR, number + 1) for number in range(count)]


def test_runs_of_any_time_count_where_the_code_never_changed(served: ServedRegressor) -> None:
    first = datetime.min.replace(tzinfo=UTC)
    runs = [replace(run, started_at=first) for run in rising_runs(served.fitted_at, 2)]

    assert since_last_change(runs, served) == runs


def test_the_version_before_an_instant_is_the_last_one_listed_that_is_older() -> None:
    rng = np.random.default_rng(3)
    start = datetime.fromisoformat("2026-11-01T00:00:00Z")
    instants = [start + int(hours) * HOUR for hours in rng.integers(0, 30, 40)]
    publications = [Publication(instant, number) for number, instant in enumerate(instants)]
    published = PublishedVersions(publications)

    for hours in range(-1, 32):
        instant = start + hours * HOUR
        older = [each.version for each in publications if each.published_at < instant]
        assert published.version_before(instant) == (older[-1] if older else None)


def test_after_many_alarms_the_watch_passes_to_the_present(served: ServedRegressor) -> None:
    start, loaded = served.fitted_at, list[int]()

    def load(version: int) -> ServedRegressor:
        loaded.append(version)
        return served

    watch = DriftWatch(load, None, DRIFT_THRESHOLDS)
    report = _report(watch, rising_runs(start, 24 * 20), daily(start, 20))

    assert len(loaded) == drift.MAX_ALARMS + 1
    assert loaded == sorted(set(loaded))
    assert loaded[-1] == 20
    assert report is not None
    assert report.has_alarm
    assert report.runs == 24


def test_few_alarms_are_followed_one_by_one(
    served: ServedRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, loaded = served.fitted_at, list[int]()

    def load(version: int) -> ServedRegressor:
        loaded.append(version)
        return served

    monkeypatch.setattr(drift, "MAX_ALARMS", 100)
    watch = DriftWatch(load, None, DRIFT_THRESHOLDS)
    followed = _report(watch, rising_runs(start, 24 * 9), daily(start, 9))

    assert loaded == [1, *range(3, 10)]
    assert followed is not None
    assert followed.has_alarm


def test_versions_that_cannot_be_used_are_passed_over(served: ServedRegressor) -> None:
    start, loaded = served.fitted_at, list[int]()

    def load(version: int) -> ServedRegressor | None:
        loaded.append(version)
        return served if version == 200 else None

    watch = DriftWatch(load, None, DRIFT_THRESHOLDS)
    report = _report(watch, rising_runs(start, 24 * 200), daily(start, 200))

    assert len(loaded) == drift.MAX_RESTARTS + 1
    assert report is not None
    assert report.regressor_version == served.version
    assert report.runs == 24


@pytest.mark.parametrize("has_seen_the_change", [False, True])
def test_only_a_version_that_has_seen_the_change_ends_an_alarm(
    served: ServedRegressor, *, has_seen_the_change: bool
) -> None:
    rng, usual = np.random.default_rng(1), law_seconds(4, 2000.0)
    # The change comes while a fit is computed that takes long.
    factors = np.exp(rng.normal(0.0, 0.02, 60)) * np.where(np.arange(60) < 10, 1.0, 1.05)
    runs = [
        replace(run, duration_seconds=usual * float(factor))
        for run, factor in zip(rising_runs(served.fitted_at, 60), factors, strict=True)
    ]
    published_at = runs[40].created_at + HOUR / 2
    seen_until = runs[40 if has_seen_the_change else 5].created_at
    later = replace(served, version=2, fitted_at=published_at, seen_until=seen_until)
    watch = DriftWatch({1: served, 2: later}.get, None, CI_THRESHOLDS, slower_only=True)

    before = _report(watch, runs[:40], [Publication(served.fitted_at, 1)])
    after = _report(watch, runs, [Publication(served.fitted_at, 1), Publication(published_at, 2)])

    assert before is not None
    assert after is not None
    assert after.regressor_version == 2
    assert (before.has_alarm, after.has_alarm) == (True, not has_seen_the_change)
