"""Replicas of the service and fitters on one PostgreSQL, each restarted when it dies."""

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from app.storage.database import Database
from app.storage.migration import migrate
from tests.soak.clocks import Clock, ClockFactory
from tests.support.disk import SmallDisk, small_disk
from tests.support.postgresql import PostgreSQLServer, running_postgresql
from tests.support.ray_nodes import RayNodes, running_ray
from tests.support.server import LISTENING, RunningProcess, start_process

LEASE_S: Final = 3.0
_POLL_S: Final = 0.2
_DISK_BYTES: Final = 4 * 2**30
_COMMANDS: Final = {
    "service": ("serve", "--port", "0"),
    "fitter": ("fitter",),
}


@dataclass(frozen=True, slots=True)
class Platform:
    """What the fleet runs on; None for what is not available here."""

    server: PostgreSQLServer
    disk: SmallDisk | None
    ray: RayNodes | None
    clock_factory: ClockFactory


@dataclass
class Member:
    """A process of the fleet; `url` is where it listens, empty if it does not."""

    kind: str
    running: RunningProcess
    clock: Clock | None
    ray_address: str | None
    url: str = ""
    lines: list[str] = field(default_factory=list)
    listener: threading.Thread | None = None

    @property
    def process_id(self) -> int:
        return self.running.process.pid

    @property
    def is_alive(self) -> bool:
        return self.running.process.poll() is None

    def kill(self) -> None:
        """Kill the process, as the loss of a machine would."""
        with suppress(ProcessLookupError):
            os.kill(self.process_id, signal.SIGKILL)


class Fleet:
    """Keeps a number of services and fitters running, like a supervisor."""

    def __init__(self, platform: Platform, *, services: int, fitters: int) -> None:
        self.server, self.disk, self.ray = platform.server, platform.disk, platform.ray
        self._clock_factory = platform.clock_factory
        self._stop = threading.Event()
        self._members = [
            *(self._start("service") for _ in range(services)),
            *(self._start("fitter") for _ in range(fitters)),
        ]
        if self.ray is not None:
            self._members.append(self._start("fitter", self.ray.address))
        self._ended: list[Member] = []
        self._supervisor = threading.Thread(target=self._supervise, name="keeper")
        self._supervisor.start()

    def _start(self, kind: str, ray_address: str | None = None) -> Member:
        # No clock with Ray, whose own processes would inherit it.
        clock = self._clock_factory.make() if ray_address is None else None
        on_ray = {} if ray_address is None else {"ray_address": ray_address}
        running = start_process(
            *_COMMANDS[kind],
            database_url=self.server.url,
            environment={} if clock is None else clock.environment,
            lease_s=LEASE_S,
            fit_max_attempts=50,
            fitter_poll_s=0.1,
            **on_ray,
        )
        member = Member(kind, running, clock, ray_address)
        member.listener = threading.Thread(target=self._listen, args=(member,), daemon=True)
        member.listener.start()
        return member

    def _listen(self, member: Member) -> None:
        assert member.running.process.stderr is not None
        with member.running.process.stderr as log:
            for line in log:
                member.lines.append(line)
                if match := LISTENING.search(line):
                    member.url = match["url"]

    def _supervise(self) -> None:
        while not self._stop.wait(_POLL_S):
            for index, member in enumerate(self._members):
                if not member.is_alive:
                    self._ended.append(member)
                    self._members[index] = self._start(member.kind, member.ray_address)

    def members(self, kind: str) -> list[Member]:
        """Return the live members of a kind."""
        return [member for member in self._members if member.kind == kind and member.is_alive]

    def clocks(self) -> list[Clock]:
        """Return the clocks of those live members that have their own."""
        members = [*self.members("service"), *self.members("fitter")]
        return [member.clock for member in members if member.clock is not None]

    def url(self) -> str | None:
        """Return the address of a listening service, None if there is none."""
        listening = [service.url for service in self.members("service") if service.url]
        return random.choice(listening) if listening else None

    def tracebacks(self) -> list[str]:
        """Return the unexpected errors that members logged, with the lines after them."""
        excerpts = []
        for member in [*self._members, *self._ended]:
            lines = list(member.lines)
            excerpts += [
                f"{member.kind}: " + "".join(lines[max(index - 1, 0) : index + 40])
                for index, line in enumerate(lines)
                if line.startswith("Traceback")
            ]
        return excerpts

    def computing(self) -> list[int]:
        """Return the processes that are computing fits."""
        process_ids = []
        for fitter in self.members("fitter"):
            for thread in Path(f"/proc/{fitter.process_id}/task").glob("*"):
                with suppress(OSError):
                    process_ids += [
                        int(process_id) for process_id in (thread / "children").read_text().split()
                    ]
        return process_ids

    def close(self) -> None:
        """Shut all members down."""
        self._stop.set()
        self._supervisor.join()
        for member in self._members:
            member.running.process.terminate()
        for member in self._members:
            member.running.process.wait(60)
        for member in [*self._members, *self._ended]:
            assert member.listener is not None
            member.listener.join(60)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Yield the fleet's database over separate connections."""
        database = Database(self.server.url, pool_size=1)
        try:
            yield database
        finally:
            database.close()


def _migrate(url: str) -> None:
    """Migrate a new database to the current schema."""
    database = Database(url)
    migrate(database)
    database.close()


@contextmanager
def running_fleet(*, services: int, fitters: int, with_ray: bool = False) -> Iterator[Fleet]:
    """Yield a fleet on its own PostgreSQL, whose commits survive kill -9.

    With Ray, one more fitter computes on a cluster of two nodes.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="trainfare-soak-")))
        disk = stack.enter_context(small_disk(_DISK_BYTES))
        parent = None if disk is None else disk.path
        server = stack.enter_context(running_postgresql(synchronous_commit=True, parent=parent))
        ray = stack.enter_context(running_ray()) if with_ray else None
        _migrate(server.url)
        platform = Platform(server, disk, ray, ClockFactory(folder))
        fleet = Fleet(platform, services=services, fitters=fitters)
        try:
            yield fleet
        finally:
            fleet.close()
