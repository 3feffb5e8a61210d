"""What happens to a fleet, in turn: processes and the database die, a fitter is suspended."""

import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from tests.soak.fleet import LEASE_S, Fleet

_DATABASE_AWAY_S: Final = 4.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that happens to a fleet."""

    name: str
    strike: Callable[[Fleet, threading.Event], None]


def _kill(kind: str) -> Callable[[Fleet, threading.Event], None]:
    def strike(fleet: Fleet, _stop: threading.Event) -> None:
        if living := fleet.members(kind):
            random.choice(living).kill()

    return strike


def _kill_computation(fleet: Fleet, _stop: threading.Event) -> None:
    for process_id in fleet.computing()[:1]:
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGKILL)


def _kill_database(fleet: Fleet, stop: threading.Event) -> None:
    fleet.server.kill()
    stop.wait(_DATABASE_AWAY_S)
    fleet.server.start()


def _suspend_fitter(fleet: Fleet, stop: threading.Event) -> None:
    """Let a fitter sleep through its lease and wake up late."""
    living = fleet.members("fitter")
    if not living:
        return
    chosen = random.choice(living).process_id
    with suppress(ProcessLookupError):
        os.kill(chosen, signal.SIGSTOP)
        stop.wait(2 * LEASE_S)
        os.kill(chosen, signal.SIGCONT)


ALL: Final = (
    Fault("a service is killed", _kill("service")),
    Fault("a fitter is killed", _kill("fitter")),
    Fault("the process that computes a fit is killed", _kill_computation),
    Fault("PostgreSQL is killed and comes back", _kill_database),
    Fault("a fitter sleeps through its lease", _suspend_fitter),
)
FITTERS_ONLY: Final = (ALL[1],)


class Misfortune:
    """Lets faults happen one after the other, at a distance in seconds, until it is ended."""

    def __init__(self, fleet: Fleet, faults: tuple[Fault, ...], every_s: float) -> None:
        self.struck: list[str] = []
        self._fleet, self._faults, self._every_s = fleet, faults, every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="misfortune")
        self._thread.start()

    def _run(self) -> None:
        for fault in cycle(self._faults):
            if self._stop.wait(self._every_s):
                return
            self.struck.append(fault.name)
            fault.strike(self._fleet, self._stop)

    def end(self) -> None:
        """Let nothing more happen; what was taken away is back."""
        self._stop.set()
        self._thread.join()
