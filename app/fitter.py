"""The background process: claims a fit, computes it, publishes its regressor, repeats."""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from typing import Final, TypeVar

from opentelemetry.trace import TracerProvider

from app.domain import log_fields
from app.domain.availability_errors import StorageUnavailableError
from app.domain.fits import ClaimedFit, FitProblem
from app.services.computing.processes import ProcessComputer
from app.services.computing.task import (
    ComputationLostError,
    Computer,
    ComputerRefusedError,
    FitOutcome,
    FitRefusedError,
    FitTask,
    OnProgress,
)
from app.services.context import ServiceContext
from app.services.fitting import FittingService
from app.services.refitting.formats import FormatRenewal
from app.services.refitting.overdue import OverdueRefits
from app.settings import Settings
from app.storage.database import Database
from app.storage.migration import require_head
from app.storage.suitability import require_suitable
from app.telemetry import exporting, fit_span, report_failure, trace_database, trace_methods

_logger = logging.getLogger(__name__)
_Result = TypeVar("_Result")
_BEATS_PER_LEASE: Final = 5.0
_LONGEST_BEAT_S: Final = 1.0
_OUTAGE_PAUSE_S: Final = 2.0
_RENEWED_PER_PROCESS: Final = 4
_UNEXPECTED: Final = FitProblem("internal", "The fit failed unexpectedly; see the fitter's log.")


class _InterruptedError(Exception):
    """A computation must end: cancelled, lost to another fitter, or the fitter stops."""


def new_owner() -> str:
    """Return a name for this fitter that shows host and process."""
    return f"{socket.gethostname()[:60]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


class Fitter:
    """Computes fits one after the other; any number of fitters may share a database.

    Parameters
    ----------
    fitting
        The use cases that claim, prepare and publish.
    computer
        Where fits are computed.
    settings
        The settings of the process.
    stop
        Set to end the fitter: the fit under way is requeued.
    owner
        A name for the leases.
    beat_s
        How often a lease is renewed.
    tracing
        Where the spans of fits are sent; None: nowhere.
    """

    def __init__(
        self,
        fitting: FittingService,
        computer: Computer,
        settings: Settings,
        *,
        stop: threading.Event | None = None,
        owner: str | None = None,
        beat_s: float = _LONGEST_BEAT_S,
        tracing: TracerProvider | None = None,
    ) -> None:
        self._fitting = fitting
        self._computer = computer
        self._poll_s = settings.fitter_poll_s
        self._stop = stop or threading.Event()
        self._owner = owner or new_owner()
        self._beat_s = beat_s
        self._tracing = tracing

    def run(self) -> None:
        """Step until told to stop; wait for a database that is away."""
        while not self._stop.is_set():
            try:
                pause_s = 0.0 if self.step() else self._poll_s
            except StorageUnavailableError:
                pause_s = _OUTAGE_PAUSE_S
            if pause_s:
                self._stop.wait(pause_s)

    def step(self) -> bool:
        """Claim one fit and see it to its end; False if none waits or none can be computed."""
        if not self._computer.is_ready():
            return False
        claim = self._fitting.claim(self._owner)
        if claim is None:
            return False
        fields = log_fields.telling(fit=claim.fit.fit_id, workload=claim.fit.workload)
        with fields, fit_span(self._tracing, claim):
            finish = self._compute(claim)
            self._retry_outages(finish)
        return True

    def _compute(self, claim: ClaimedFit) -> Callable[[], object]:
        """Compute a fit and return the action that ends it."""
        report = self._progress_callback(claim)
        try:
            task = self._retry_outages(lambda: self._prepare(claim, report))
            outcome = self._computer.compute(task, report)
        except _InterruptedError:
            return lambda: self._fitting.leave(claim)
        except FitRefusedError as refusal:
            problem = refusal.problem
            return lambda: self._fail(claim, problem)
        except ComputationLostError as lost:
            detail = str(lost)
            return lambda: self._retry(claim, detail)
        except ComputerRefusedError:
            # The next fit would be refused too: requeue this one for other fitters.
            self._retry_outages(lambda: self._fitting.leave(claim))
            raise
        except StorageUnavailableError:
            # The fitter stops while the database is away, so the lease expires by itself.
            raise
        except Exception:
            _logger.exception("fit failed unexpectedly")
            return lambda: self._fail(claim, _UNEXPECTED)
        return lambda: self._publish(claim, outcome)

    def _prepare(self, claim: ClaimedFit, report: OnProgress) -> FitTask:
        """Read the inputs of a fit in another thread, and report meanwhile.

        To read millions of runs takes longer than a lease lasts.
        """
        with ThreadPoolExecutor(1, "inputs") as reader:
            reading = reader.submit(copy_context().run, self._fitting.prepare, claim)
            while not wait([reading], timeout=self._beat_s or _LONGEST_BEAT_S).done:
                report(0.0, "reading the runs")
            return reading.result()

    def _fail(self, claim: ClaimedFit, problem: FitProblem) -> None:
        report_failure(problem.code)
        self._fitting.fail(claim, problem)

    def _retry(self, claim: ClaimedFit, detail: str) -> None:
        report_failure(ComputationLostError.__name__)
        self._fitting.retry(claim, detail)

    def _publish(self, claim: ClaimedFit, outcome: FitOutcome) -> None:
        if not self._fitting.publish(claim, outcome):
            self._fitting.leave(claim)

    def _progress_callback(self, claim: ClaimedFit) -> OnProgress:
        renewed_at = -float("inf")

        def report(share: float, step: str) -> None:
            nonlocal renewed_at
            if self._stop.is_set():
                raise _InterruptedError
            if time.monotonic() - renewed_at < self._beat_s:
                return
            renewed_at = time.monotonic()
            if not self._fitting.renew(claim, share, step):
                raise _InterruptedError

        return report

    def _retry_outages(self, action: Callable[[], _Result]) -> _Result:
        """Run an action on the database, retrying until the database answers."""
        while True:
            try:
                return action()
            except StorageUnavailableError:
                if self._stop.wait(_OUTAGE_PAUSE_S):
                    raise


def run(settings: Settings, stop: threading.Event) -> None:
    """Run a fitter until `stop` is set.

    Raises
    ------
    SchemaMismatchError
        If the database's schema is not at head.
    ComputerRefusedError
        If LightGBM cannot be loaded here, or the Ray cluster can never take this process's fits.
    """
    # Each fit may be read while its lease is renewed; and the fitter tells that it is alive.
    database = Database(settings.url, pool_size=2 * settings.fitter_processes + 1)
    try:
        require_suitable(database)
        require_head(database)
        with exporting(settings) as tracing:
            run_until(stop, ServiceContext(database, settings), tracing)
    finally:
        database.close()


def open_computer(settings: Settings, beat_s: float) -> Computer:
    """Return the computer of fits: a Ray cluster if one is named, else this machine."""
    if settings.ray_address is None:
        return ProcessComputer(beat_s=beat_s)
    # Ray reads it on import. Otherwise a connection lost during a fit would make it start a
    # cluster of its own on this machine.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    from app.services.computing.ray_cluster import RayComputer  # noqa: PLC0415 - Ray is an extra

    return RayComputer(settings.ray_address, beat_s=beat_s)


def run_until(
    stop: threading.Event, context: ServiceContext, tracing: TracerProvider | None = None
) -> None:
    """Run as many fits at once as the settings say, until `stop` is set."""
    settings, owner = context.settings, new_owner()
    fitting, started_at = FittingService(context), context.now()
    at_most = _RENEWED_PER_PROCESS * settings.fitter_processes
    renewal = FormatRenewal(context, at_most=at_most)
    overdue = OverdueRefits(context, at_most=at_most)
    beat_s = min(_LONGEST_BEAT_S, settings.lease_s / _BEATS_PER_LEASE)
    computer = open_computer(settings, beat_s)
    if tracing is not None:
        trace_methods(fitting, tracing)
        trace_methods(computer, tracing)
        trace_database(context.database, tracing)
    fitter = Fitter(
        fitting, computer, settings, stop=stop, owner=owner, beat_s=beat_s, tracing=tracing
    )
    _logger.info("fitter started", extra={"fitter": owner, "fits": settings.fitter_processes})

    def heartbeat() -> None:
        fitting.seen(owner, started_at, computer.waits_for)
        renewal.look()
        overdue.look()

    with ThreadPoolExecutor(settings.fitter_processes, "fit") as pool:
        threads = [pool.submit(fitter.run) for _ in range(settings.fitter_processes)]
        try:
            _send_heartbeats(threads, heartbeat, stop, settings.lease_s)
        finally:
            stop.set()
    computer.close()
    _sign_off(fitting, owner)
    for thread in threads:
        thread.result()


def _send_heartbeats(
    threads: list[Future[None]],
    heartbeat: Callable[[], None],
    stop: threading.Event,
    lease_s: float,
) -> None:
    """Report the fitter alive until it is told to stop or one of its threads fails."""
    while not stop.is_set():
        try:
            heartbeat()
        except StorageUnavailableError:
            _logger.warning("fitter cannot reach the database")
        wait(threads, timeout=min(lease_s / _BEATS_PER_LEASE, 5.0), return_when=FIRST_EXCEPTION)
        if any(thread.done() for thread in threads):
            return


def _sign_off(fitting: FittingService, owner: str) -> None:
    try:
        fitting.gone(owner)
    except StorageUnavailableError:
        _logger.warning("fitter stops without the database", extra={"fitter": owner})
    _logger.info("fitter stopped", extra={"fitter": owner})
