"""The fitter process lives through a database that is away, and ends when it is told to."""

import io
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import orjson
import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session
from typing_extensions import override

from app.domain.access import DEFAULT_PROJECT
from app.domain.availability_errors import StorageUnavailableError
from app.domain.fits import Fit, FitState
from app.domain.identifiers import Slug
from app.domain.workloads import RefitMode, RefitPolicy, WorkloadDeclaration
from app.fitter import Fitter, run, run_until
from app.services.computing.task import (
    ComputerRefusedError,
    FitOutcome,
    FitTask,
    InProcessComputer,
    OnProgress,
    require_own_format,
)
from app.services.context import ServiceContext, utc_now
from app.services.fitting import FittingService
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from models import FORMAT_VERSION
from tests.support.clock import FakeClock
from tests.support.outage import make_available, make_unavailable
from tests.support.regressors import QUICK, store_runs
from tests.support.uploads import make_json_run

pytestmark = pytest.mark.lengthy

SLUG = Slug("resnet")


class ReturningEvent(threading.Event):
    """A stop signal that uses the pause to bring the database back."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self.pauses = 0

    @override
    def wait(self, timeout: float | None = None) -> bool:
        self.pauses += 1
        make_available(self._database)
        return super().wait(0)


class OutageComputer(InProcessComputer):
    """Takes the database away before it computes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        make_unavailable(self._database)
        return super().compute(task, on_progress)


@pytest.fixture
def asked(services: Services) -> Fit:
    store_runs(services.context, SLUG)
    return services.fits.request_fit(DEFAULT_PROJECT, SLUG, QUICK)[0]


def when_ended(services: Services, fit: Fit, act: Callable[[], None]) -> threading.Thread:
    """Start a thread that acts as soon as the fit has ended."""

    def watch() -> None:
        pause = threading.Event()
        while not services.fits.get(DEFAULT_PROJECT, fit.fit_id).state.is_final:
            pause.wait(0.02)
        act()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


def alive(context: ServiceContext) -> int:
    with context.database.reading() as stores:
        return stores.fits.fitters(context.now() - timedelta(minutes=1), context.now()).alive


def test_what_was_computed_is_published_when_the_database_is_back(
    services: Services, asked: Fit
) -> None:
    context = services.context
    stop = ReturningEvent(context.database)
    computer = OutageComputer(context.database)
    fitter = Fitter(FittingService(context), computer, context.settings, stop=stop, beat_s=0.0)

    fitter.step()

    ended = services.fits.get(DEFAULT_PROJECT, asked.fit_id)
    assert stop.pauses == 1
    assert (ended.state, ended.attempts) == (FitState.SUCCEEDED, 1)


def test_fit_asks_for_the_next_one_though_the_answer_to_its_commit_was_lost(
    services: Services, asked: Fit, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, original = services.context, Session.commit
    policy = WorkloadDeclaration(refit_policy=RefitPolicy(RefitMode.AUTO, 1))
    services.workloads.declare(DEFAULT_PROJECT, SLUG, policy)

    def commit(session: Session) -> None:
        monkeypatch.setattr(Session, "commit", original)
        session.commit()
        raise OperationalError("COMMIT", None, ConnectionError())

    class LastComputer(InProcessComputer):
        @override
        def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
            outcome = super().compute(task, on_progress)
            clock.advance(1.0)
            body = io.BytesIO(orjson.dumps(make_json_run(workload=SLUG)))
            services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON)
            monkeypatch.setattr(Session, "commit", commit)
            return outcome

    stop = ReturningEvent(context.database)
    Fitter(FittingService(context), LastComputer(), context.settings, stop=stop).step()

    following, ended = services.fits.list_page(DEFAULT_PROJECT, SLUG).items
    assert (ended.fit_id, ended.state, ended.regressor_version) == (
        asked.fit_id,
        FitState.SUCCEEDED,
        1,
    )
    assert (stop.pauses, following.state) == (1, FitState.QUEUED)


def test_fitter_told_to_stop_does_not_wait_for_the_database(services: Services, asked: Fit) -> None:
    context = services.context
    stop = threading.Event()

    class StoppingComputer(OutageComputer):
        @override
        def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
            outcome = super().compute(task, lambda _share, _step: None)
            stop.set()
            return outcome

    computer = StoppingComputer(context.database)
    fitter = Fitter(FittingService(context), computer, context.settings, stop=stop)

    with pytest.raises(StorageUnavailableError):
        fitter.step()

    fitter.run()
    make_available(context.database)
    assert services.fits.get(DEFAULT_PROJECT, asked.fit_id).state is FitState.RUNNING


def test_database_that_is_away_is_waited_for(services: Services, asked: Fit) -> None:
    context = services.context
    stop = ReturningEvent(context.database)

    class LastComputer(InProcessComputer):
        @override
        def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
            outcome = super().compute(task, on_progress)
            stop.set()
            return outcome

    make_unavailable(context.database)
    fitter = Fitter(FittingService(context), LastComputer(), context.settings, stop=stop)

    fitter.run()

    assert stop.pauses == 1
    assert services.fits.get(DEFAULT_PROJECT, asked.fit_id).state is FitState.SUCCEEDED


def test_process_fits_until_it_is_told(settings: Settings, services: Services, asked: Fit) -> None:
    stop = threading.Event()
    watcher = when_ended(services, asked, stop.set)

    run(settings, stop)

    watcher.join()
    assert services.fits.get(DEFAULT_PROJECT, asked.fit_id).state is FitState.SUCCEEDED


def test_fitter_is_alive_until_it_says_goodbye(
    database: Database, settings: Settings, asked: Fit
) -> None:
    context = ServiceContext(database, settings)
    stop, seen = threading.Event(), []

    def look_and_stop() -> None:
        seen.append(alive(context))
        stop.set()

    watcher = when_ended(Services(context), asked, look_and_stop)

    run_until(stop, context)

    watcher.join()
    assert (seen, alive(context)) == ([1], 0)


def test_fitter_that_breaks_ends_with_its_error(database: Database, settings: Settings) -> None:
    def now() -> datetime:
        if threading.current_thread().name.startswith("fit"):
            raise RuntimeError("broken clock")
        return utc_now()

    with pytest.raises(RuntimeError, match="broken clock"):
        run_until(threading.Event(), ServiceContext(database, settings, now))


def test_fitter_without_its_database_tells_the_log_only(
    database: Database, settings: Settings
) -> None:
    stop = threading.Event()
    beats = []

    def now() -> datetime:
        if threading.current_thread() is threading.main_thread():
            beats.append(utc_now())
        if len(beats) > 1:
            stop.set()
        return utc_now()

    make_unavailable(database)

    run_until(stop, ServiceContext(database, settings, now))

    make_available(database)
    assert alive(ServiceContext(database, settings)) == 0


class AwayComputer(InProcessComputer):
    """Cannot be reached the first times it is asked."""

    def __init__(self, times: int) -> None:
        self._times = times

    @override
    def is_ready(self) -> bool:
        self._times -= 1
        return self._times < 0


def test_no_fit_is_claimed_while_its_computer_is_away(services: Services, asked: Fit) -> None:
    context = services.context
    fitter = Fitter(FittingService(context), AwayComputer(2), context.settings, beat_s=0.0)

    steps = [fitter.step(), fitter.step()]
    waiting = services.fits.get(DEFAULT_PROJECT, asked.fit_id)
    fitter.step()

    ended = services.fits.get(DEFAULT_PROJECT, asked.fit_id)
    assert steps == [False, False]
    assert (waiting.state, waiting.attempts) == (FitState.QUEUED, 0)
    assert (ended.state, ended.attempts) == (FitState.SUCCEEDED, 1)


class OlderComputer(InProcessComputer):
    """Computes as a cluster does whose nodes have an earlier release."""

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        outcome = super().compute(task, on_progress)
        return require_own_format(replace(outcome, format_version=FORMAT_VERSION - 1))


def test_fit_that_another_release_computed_is_left_to_fitters_of_this_one(
    services: Services, asked: Fit
) -> None:
    context = services.context
    fitter = Fitter(FittingService(context), OlderComputer(), context.settings, beat_s=0.0)

    with pytest.raises(ComputerRefusedError, match="another release of Trainfare"):
        fitter.step()

    left = services.fits.get(DEFAULT_PROJECT, asked.fit_id)
    assert (left.state, left.attempts, left.regressor_version) == (FitState.QUEUED, 0, None)
