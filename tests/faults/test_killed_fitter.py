"""A fitter dies in the middle of a fit: another takes the fit over and finishes it."""

import os
import signal
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import Fit, FitRequest, FitState
from app.domain.identifiers import Slug
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.regressors import make_fitter, store_runs
from tests.support.server import RunningProcess, start_process

pytestmark = pytest.mark.lengthy

SLOW = FitRequest(time_budget_s=60.0)
"""All regressors on many runs: seconds, of which the test sees the first tenth."""


def _children(process_id: int) -> list[Path]:
    children = []
    for thread in Path(f"/proc/{process_id}/task").iterdir():
        with suppress(OSError):
            children += [
                Path("/proc", child) for child in (thread / "children").read_text().split()
            ]
    return children


@pytest.fixture
def living(database: Database, settings: Settings) -> Services:
    """Services whose clock is the real one, as the fitter process has it."""
    return Services(ServiceContext(database, settings))


def _start_and_claim(services: Services) -> tuple[RunningProcess, Fit]:
    """Start a fitter process on a slow fit and return as soon as it has claimed it."""
    store_runs(services.context, "resnet", sizes=tuple(map(float, range(1000, 1060))))
    requested, _ = services.fits.request_fit(DEFAULT_PROJECT, Slug("resnet"), SLOW)
    running = start_process("fitter", database_url=services.context.settings.url, lease_s=2)
    running.wait_for_line("fit claimed")
    return running, requested


def test_killed_fitters_fit_is_taken_over_and_finished(living: Services) -> None:
    running, requested = _start_and_claim(living)
    computing = _children(running.process.pid)

    os.kill(running.process.pid, signal.SIGKILL)

    # Standard error ends when the last process that holds it has ended: the fitter's child.
    running.drain()
    assert running.wait() == -signal.SIGKILL
    assert not any(child.exists() for child in computing)
    abandoned = living.fits.get(DEFAULT_PROJECT, requested.fit_id)
    assert (abandoned.state, abandoned.attempts) == (FitState.RUNNING, 1)
    later_context = ServiceContext(
        living.context.database,
        living.context.settings,
        now=lambda: datetime.now(UTC) + timedelta(seconds=2),
    )
    while not make_fitter(later_context).step():
        pass
    ended = living.fits.get(DEFAULT_PROJECT, requested.fit_id)
    assert (ended.state, ended.attempts, ended.regressor_version) == (FitState.SUCCEEDED, 2, 1)


def test_fitter_told_to_end_gives_its_fit_back(living: Services) -> None:
    running, requested = _start_and_claim(living)
    running.drain()

    exit_code = running.end()

    waiting = living.fits.get(DEFAULT_PROJECT, requested.fit_id)
    assert exit_code == 0
    assert (waiting.state, waiting.attempts) == (FitState.QUEUED, 0)
    with living.context.database.reading() as stores:
        assert (
            stores.fits.fitters(datetime.now(UTC) - timedelta(hours=1), datetime.now(UTC)).alive
            == 0
        )
