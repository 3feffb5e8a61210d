"""Computes fits in child processes, so that a crash of one never takes the fitter down."""

import ctypes
import importlib.util
import logging
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from typing_extensions import override

from app.domain.fits import FitProblem
from app.domain.own_modules import module_command, module_environment
from app.domain.threads import ONE_THREAD
from app.services.computing.messages import Done, Message, Progress, Refused
from app.services.computing.task import (
    ComputationLostError,
    Computer,
    ComputerRefusedError,
    FitOutcome,
    FitRefusedError,
    FitTask,
    OnProgress,
)
from app.services.computing.words import ChildLog

_OPENMP: Final = (
    "Install the OpenMP runtime (Debian: apt-get install libgomp1; macOS: brew install libomp)."
)
_RESTART: Final = (
    "Restart the fitter; if that does not help, see that its Python is still installed, and that"
    " the machine has room for processes, memory and open files."
)
_logger = logging.getLogger(__name__)
_EXIT_TIMEOUT_S: Final = 5.0


class TimedOutError(FitRefusedError):
    """A computation ran far beyond its time budget."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(
            FitProblem(
                "fit_timed_out",
                f"The fit ran for {limit_s:.0f} s, far beyond its time budget, and was stopped;"
                " ask for fewer regressors, or exclude runs.",
            )
        )


def generous_limit_s(budget_s: float) -> float:
    """Return the seconds after which a fit with a time budget must have gone wrong.

    On a core that forecasts saturate, a fit gets a twenty-third (`child.NICENESS`).
    """
    return 25.0 * budget_s + 120.0


class _Child:
    """One process that computes tasks one after the other, and ends with this one."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with ExitStack() as on_failure, theirs:
            on_failure.enter_context(ours)
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                module_command("app.services.computing.child", str(theirs.fileno())),
                # One thread per fit, set before numpy is imported: with a thread per core, several
                # fits at once take many times as long.
                env={**module_environment(), **ONE_THREAD},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            on_failure.pop_all()
        assert self._process.stderr is not None
        self._child_log = ChildLog(self._process.stderr)
        # The child sees this connection close when this process dies, for whatever reason.
        self._connection: Connection[FitTask, Message] = Connection(ours.detach())

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def compute(
        self, task: FitTask, on_progress: OnProgress, *, beat_s: float, limit_s: float
    ) -> FitOutcome:
        self._child_log.use_caller_context()
        try:
            self._connection.send(task)
            return self._await(on_progress, beat_s, limit_s)
        except (EOFError, ConnectionError) as error:
            self.kill()
            raise ComputationLostError(
                f"The process that computed the fit ended with code {self._process.returncode}."
            ) from error

    def _await(self, on_progress: OnProgress, beat_s: float, limit_s: float) -> FitOutcome:
        deadline = time.monotonic() + limit_s
        latest = Progress(0.0, "starting")
        while time.monotonic() < deadline:
            has_message = self._connection.poll(beat_s)
            message: Message = self._connection.recv() if has_message else latest
            match message:
                case Progress(share, step):
                    latest = message
                    on_progress(share, step)
                case Done(outcome):
                    return outcome
                case Refused(problem, trace):
                    if trace:
                        _logger.error("fit failed unexpectedly\n%s", trace)
                    raise FitRefusedError(problem)
        raise TimedOutError(limit_s)

    def end(self) -> None:
        """End an idle child: it exits when it sees the connection close."""
        self._connection.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._child_log.end(_EXIT_TIMEOUT_S)
        self._connection.close()


def require_lightgbm(package: str = "lightgbm") -> None:
    """Load LightGBM's library, but not the package, which takes a second.

    Raises
    ------
    ComputerRefusedError
        If this fails: the library needs the system's OpenMP runtime, which slim images lack.
    """
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        for library in Path(folder).rglob("lib_lightgbm.*"):
            try:
                ctypes.CDLL(str(library))
            except OSError as error:
                raise ComputerRefusedError(
                    f"LightGBM cannot be loaded: {error}.", _OPENMP
                ) from error


class ProcessComputer(Computer):
    """Computes in child processes, started when needed and kept for the next fit.

    Parameters
    ----------
    beat_s
        The longest interval between calls of `on_progress`.
    limit_s
        The seconds after which a fit with a given time budget is ended.
    """

    def __init__(
        self, *, beat_s: float, limit_s: Callable[[float], float] = generous_limit_s
    ) -> None:
        self._beat_s = beat_s
        self._limit_s = limit_s
        self._can_load_lightgbm = False
        self._idle: list[_Child] = []
        self._lock = threading.Lock()

    @override
    def is_ready(self) -> bool:
        if not self._can_load_lightgbm:
            require_lightgbm()
            self._can_load_lightgbm = True
        return True

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        child, limit_s = self._take(), self._limit_s(task.request.time_budget_s)
        try:
            outcome = child.compute(task, on_progress, beat_s=self._beat_s, limit_s=limit_s)
        except BaseException as error:
            if isinstance(error, FitRefusedError) and not isinstance(error, TimedOutError):
                self._keep(child)
            else:
                # It computes something that nobody waits for any more.
                child.kill()
            raise
        self._keep(child)
        return outcome

    def _take(self) -> _Child:
        with self._lock:
            while self._idle:
                child = self._idle.pop()
                if child.is_alive:
                    return child
                child.kill()
        try:
            return _Child()
        except OSError as error:
            # Each fit would fail here, at once: all that are queued.
            raise ComputerRefusedError(
                f"No process for fits can be started: {error}.", _RESTART
            ) from error

    def _keep(self, child: _Child) -> None:
        with self._lock:
            self._idle.append(child)

    @override
    def close(self) -> None:
        with self._lock:
            for child in self._idle:
                child.end()
            self._idle.clear()
