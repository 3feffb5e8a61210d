"""Computes fits on a Ray cluster, with the held-out sets of each fit spread over its nodes."""

import logging
import math
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import ray
from ray.exceptions import GetTimeoutError, RayError, RayTaskError
from typing_extensions import override

from app.services.computing.messages import Done, Progress, Refused, answer
from app.services.computing.processes import TimedOutError, generous_limit_s
from app.services.computing.task import (
    ComputationLostError,
    Computer,
    FitOutcome,
    FitRefusedError,
    FitTask,
    OnProgress,
    OtherVersionsError,
    require_own_format,
)

_logger = logging.getLogger(__name__)
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_MAX_RESTARTS: Final = 3
"""How often Ray restarts a task whose node was lost."""
_ANSWER_S: Final = 1.0
_CALLS_AT_ONCE: Final = 4
"""One call computes, others report progress or ask for it."""
_IN_FLIGHT_PER_CORE: Final = 2
_MAX_REASON_LENGTH: Final = 300
_PROBE_S: Final = 3.0
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_SILENT_S: Final = 300.0
"""The longest time without news of a computation: a lost node is noticed within a minute, and its
computations move to another. Ray itself waits forever for a cluster that was replaced by another
one at its address."""
_LOST: Final = (RayError, OSError, ValueError)
"""Errors that mean the cluster is gone; a client's closed channel raises ValueError."""

_WAITING: Final = Progress(0.0, "waiting for a free core of the cluster")

_OTHER_VERSION: Final = "Version mismatch"
"""How Ray's message begins about a cluster with another version of Ray or Python."""


def _host_and_port(address: str) -> tuple[str, int]:
    """Return the host and port of a cluster's address."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    return host.strip("[]"), int(port)


def _is_connected() -> bool:
    try:
        return bool(ray.is_initialized())
    except _LOST:
        return False


def _apply(function: Callable[[_Item], _Result], item: _Item) -> _Result:
    return function(item)


def _cluster_map(function: Callable[[_Item], _Result], items: Iterable[_Item]) -> Iterator[_Result]:
    """Apply a function to items on all nodes, only a few items ahead, with results in order."""
    max_in_flight = _IN_FLIGHT_PER_CORE * max(int(ray.cluster_resources().get("CPU", 1)), 1)
    shared, pending = ray.put(function), deque[Any]()
    remote = ray.remote(num_cpus=1, max_retries=_MAX_RESTARTS)(_apply)
    for item in items:
        pending.append(remote.remote(shared, item))
        if len(pending) >= max_in_flight:
            yield ray.get(pending.popleft())
    while pending:
        yield ray.get(pending.popleft())


def _compute(task: FitTask, foreman: Any) -> Done | Refused:
    return answer(
        task, lambda share, step: foreman.report.remote(Progress(share, step)), _cluster_map
    )


class _Foreman:
    """An actor that owns one computation and knows its progress.

    What an actor owns ends with it, and an actor can be killed safely at any moment. Cancelling a
    task at the instant in which it ends aborts the process that cancels it, here the fitter ("Tried
    to complete task that was not pending", Ray 2.60).
    """

    def __init__(self) -> None:
        self._latest = _WAITING

    def report(self, progress: Progress) -> None:
        self._latest = progress

    def latest(self) -> Progress:
        return self._latest

    def compute(self, task: FitTask) -> Done | Refused:
        for _ in range(_MAX_RESTARTS):
            try:
                return self._attempt(task)
            except RayTaskError:
                raise
            except RayError:
                # Its node was lost, and it may take long to get another one.
                self._latest = _WAITING
        return self._attempt(task)

    def _attempt(self, task: FitTask) -> Done | Refused:
        # An actor keeps its core while it waits, so this one takes none and a task computes.
        remote = ray.remote(num_cpus=1, max_retries=0)(_compute)
        message: Done | Refused = ray.get(
            remote.remote(task, ray.get_runtime_context().current_actor)
        )
        return message


@dataclass(frozen=True, slots=True)
class _Computation:
    """A task under way on the cluster."""

    foreman: Any
    result: Any

    @classmethod
    def start(cls, task: FitTask) -> "_Computation":
        remote = ray.remote(
            num_cpus=0,
            max_concurrency=_CALLS_AT_ONCE,
            max_restarts=_MAX_RESTARTS,
            # Each attempt to reach the actor while it moves to another node counts as a retry.
            max_task_retries=-1,
        )
        foreman = remote(_Foreman).remote()
        return cls(foreman, foreman.compute.remote(task))

    def has_ended(self, within_s: float) -> bool:
        return bool(ray.wait([self.result], timeout=within_s)[0])

    def progress(self) -> Progress | None:
        """Return the progress of the computation, None while it is unknown."""
        try:
            latest: Progress = ray.get(self.foreman.latest.remote(), timeout=_ANSWER_S)
        except (GetTimeoutError, *_LOST):
            return None
        return latest

    def end(self) -> None:
        """Release what it holds on the cluster, whether it has ended or is no longer wanted."""
        with suppress(*_LOST):
            ray.kill(self.foreman)


class RayComputer(Computer):
    """Computes on a Ray cluster whose nodes have this version of Trainfare installed.

    A task consists of arrays and numbers and its outcome of bytes, so the nodes need neither the
    database nor a shared disk. When a node is lost, what it was computing starts anew on another.

    Parameters
    ----------
    address
        ``ray://HOST:10001`` from outside the cluster, ``HOST:6379`` from one of its nodes.
    beat_s
        The longest interval between calls of `on_progress`, except while a foreman moves.
    limit_s
        The seconds after which a fit with a given time budget is ended; time spent waiting for a
        core does not count, since a cluster may have to start a node first.
    clock
        A monotonic clock in seconds, for limits and for pauses between connection attempts.
    """

    def __init__(
        self,
        address: str,
        *,
        beat_s: float = 1.0,
        limit_s: Callable[[float], float] = generous_limit_s,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # The variable is Ray's own switch for its usage reports.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        self._beat_s = beat_s
        self._limit_s = limit_s
        self._address = address
        self._is_closed = False
        self._connecting = threading.Lock()
        self._n_computing = 0
        self._is_silent = False
        self._waits_for: str | None = f"{address} has not been reached yet"
        self._clock = clock
        self._pause_s, self._next_attempt = _FIRST_PAUSE_S, -math.inf

    @property
    @override
    def waits_for(self) -> str | None:
        return self._waits_for

    def _connect(self) -> None:
        self._probe()
        on_sigterm = signal.getsignal(signal.SIGTERM)
        ray.init(address=self._address, log_to_driver=False, logging_level=logging.WARNING)
        if threading.current_thread() is threading.main_thread():
            # Ray's own handler would end the process at once, without telling the cluster.
            signal.signal(signal.SIGTERM, on_sigterm)
        _logger.info("computing on Ray", extra={"address": self._address, **self.resources()})

    @override
    def is_ready(self) -> bool:
        with self._connecting:
            if self._is_closed:
                return False
            if _is_connected() and not self._is_silent:
                # A node of the cluster counts as connected for a minute after the head has gone,
                # and blocks in every call meanwhile.
                silence = self._silence()
                if silence is None:
                    self._waits_for, self._pause_s = None, _FIRST_PAUSE_S
                    return True
                if self._n_computing:
                    # What is under way may still succeed, and reports its loss itself.
                    self._waits_for = f"{self._address}: {silence}"
                    return False
            return self._clock() >= self._next_attempt and self._reconnect()

    def _silence(self) -> str | None:
        """Return why nothing listens at the address, None if something does."""
        try:
            self._probe()
        except OSError as error:
            return str(error)[:_MAX_REASON_LENGTH]
        return None

    def _probe(self) -> None:
        # Where nothing listens, Ray itself waits for minutes, ignoring SIGTERM.
        socket.create_connection(_host_and_port(self._address), _PROBE_S).close()

    def _reconnect(self) -> bool:
        """Try to connect; after each failure the pause before the next attempt doubles."""
        # The remains of the broken connection would block a new one.
        with suppress(*_LOST):
            ray.shutdown()
        try:
            self._connect()
        except _LOST as error:
            self._postpone(str(error)[:_MAX_REASON_LENGTH])
            return False
        except RuntimeError as error:
            if not str(error).startswith(_OTHER_VERSION):
                raise
            raise OtherVersionsError(" ".join(str(error).split())) from error
        self._waits_for, self._pause_s, self._is_silent = None, _FIRST_PAUSE_S, False
        return True

    def _postpone(self, reason: str) -> None:
        self._waits_for = f"{self._address}: {reason}"
        fields = {"address": self._address, "reason": reason, "next_attempt_in_s": self._pause_s}
        _logger.warning("no Ray cluster answers", extra=fields)
        self._next_attempt = self._clock() + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def _check_silence(self, seconds: float) -> None:
        if seconds > _SILENT_S:
            # The connection is open but leads nowhere.
            self._is_silent = True
            raise ComputationLostError(f"The Ray cluster has not responded for {seconds:.0f} s.")

    def resources(self) -> dict[str, float]:
        """Return the cores of the cluster and the number of living nodes."""
        nodes = sum(1 for node in ray.nodes() if node["Alive"])
        return {"cores": ray.cluster_resources().get("CPU", 0.0), "nodes": nodes}

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        if self._is_closed or not _is_connected():
            raise ComputationLostError("The connection to the Ray cluster is closed.")
        with self._counted():
            try:
                computation = _Computation.start(task)
            except _LOST as error:
                raise ComputationLostError(f"The Ray cluster accepts no tasks: {error}") from error
            limit_s = self._limit_s(task.request.time_budget_s)
            try:
                return self._await(computation, on_progress, limit_s)
            finally:
                computation.end()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        with self._connecting:
            self._n_computing += 1
        try:
            yield
        finally:
            with self._connecting:
                self._n_computing -= 1

    def _await(
        self, computation: _Computation, on_progress: OnProgress, limit_s: float
    ) -> FitOutcome:
        deadline, latest = math.inf, Progress(0.0, "starting")
        last_progress_at = self._clock()
        on_progress(latest.share, latest.step)
        try:
            while not computation.has_ended(self._beat_s):
                progress = computation.progress()
                latest = progress or latest
                on_progress(latest.share, latest.step)
                last_progress_at = last_progress_at if progress is None else self._clock()
                self._check_silence(self._clock() - last_progress_at)
                is_computed = progress is not None and progress != _WAITING
                deadline = min(deadline, self._clock() + limit_s) if is_computed else math.inf
                if self._clock() > deadline:
                    raise TimedOutError(limit_s)
            message: Done | Refused = ray.get(computation.result)
        except _LOST as error:
            raise ComputationLostError(f"The Ray cluster lost the fit: {error}") from error
        if isinstance(message, Done):
            return require_own_format(message.outcome)
        if message.trace:
            _logger.error("fit failed unexpectedly\n%s", message.trace)
        raise FitRefusedError(message.problem)

    @override
    def close(self) -> None:
        self._is_closed = True
        ray.shutdown()
