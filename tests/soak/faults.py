"""Faults injected into a fleet: processes, the database and nodes die, disk and clock fail."""

import math
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from tests.soak.fleet import LEASE_S, Fleet

_DATABASE_AWAY_S: Final = 4.0
_DISK_FULL_S: Final = 4.0
_CLOCK_STEP_S: Final = 20
_CLOCK_WRONG_S: Final = 2 * LEASE_S
_NODE_AWAY_S: Final = 5.0


def _always(_fleet: Fleet) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault to inject into a fleet, if its prerequisites are available."""

    name: str
    inject: Callable[[Fleet, threading.Event], None]
    is_possible: Callable[[Fleet], bool] = _always


def _kill(kind: str) -> Callable[[Fleet, threading.Event], None]:
    def inject(fleet: Fleet, _stop: threading.Event) -> None:
        if members := fleet.members(kind):
            random.choice(members).kill()

    return inject


def _kill_computation(fleet: Fleet, _stop: threading.Event) -> None:
    for process_id in fleet.computing()[:1]:
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)


def _kill_database(fleet: Fleet, stop: threading.Event) -> None:
    fleet.server.kill()
    stop.wait(_DATABASE_AWAY_S)
    fleet.server.start()


def _suspend_fitter(fleet: Fleet, stop: threading.Event) -> None:
    """Suspend a fitter until after its lease has expired, then resume it."""
    fitters = fleet.members("fitter")
    if not fitters:
        return
    process_id = random.choice(fitters).process_id
    with suppress(ProcessLookupError):
        os.kill(process_id, signal.SIGSTOP)
        stop.wait(2 * LEASE_S)
        os.kill(process_id, signal.SIGCONT)


def _fill_disk(fleet: Fleet, stop: threading.Event) -> None:
    """Leave PostgreSQL no disk space for a while; it may end if it cannot write its log."""
    assert fleet.disk is not None
    fleet.disk.fill()
    stop.wait(_DISK_FULL_S)
    fleet.disk.free()
    fleet.server.revive()


def _step_clock(fleet: Fleet, stop: threading.Event) -> None:
    """Set the clock of one process ahead by several lease times, and later back."""
    if clocks := fleet.clocks():
        clock = random.choice(clocks)
        clock.step(_CLOCK_STEP_S)
        stop.wait(_CLOCK_WRONG_S)
        clock.step(0)


def _lose_ray_node(fleet: Fleet, stop: threading.Event) -> None:
    assert fleet.ray is not None
    fleet.ray.kill_node()
    stop.wait(_NODE_AWAY_S)
    fleet.ray.add_node()


ALL: Final = (
    Fault("a service is killed", _kill("service")),
    Fault("a fitter is killed", _kill("fitter")),
    Fault("the process that computes a fit is killed", _kill_computation),
    Fault("PostgreSQL is killed and comes back", _kill_database),
    Fault("a fitter sleeps through its lease", _suspend_fitter),
    Fault(
        "the database's disk is full", _fill_disk, is_possible=lambda fleet: fleet.disk is not None
    ),
    Fault(
        "a clock jumps ahead and back", _step_clock, is_possible=lambda fleet: bool(fleet.clocks())
    ),
    Fault("a Ray node is lost", _lose_ray_node, is_possible=lambda fleet: fleet.ray is not None),
)
FITTERS_ONLY: Final = (ALL[1],)


class FaultInjector:
    """Injects faults one after the other, at an interval in seconds."""

    def __init__(self, fleet: Fleet, faults: tuple[Fault, ...], every_s: float) -> None:
        self.injected: list[str] = []
        self.left_out = [fault.name for fault in faults if not fault.is_possible(fleet)]
        self._fleet, self._every_s = fleet, every_s
        self._faults = [fault for fault in faults if fault.is_possible(fleet)]
        self._stop = threading.Event()

    def run(self, seconds: float = math.inf) -> None:
        """Inject faults for `seconds` and each at least once, or until `end` is called.

        Call it in the main thread if Ray takes part: Ray starts nodes only there.
        """
        ends_at = time.monotonic() + seconds
        for fault in cycle(self._faults):
            if self._stop.wait(self._every_s):
                return
            if time.monotonic() > ends_at and len(self.injected) >= len(self._faults):
                return
            fault.inject(self._fleet, self._stop)
            self.injected.append(fault.name)

    def end(self) -> None:
        """Stop injecting faults; what was taken away is restored."""
        self._stop.set()
