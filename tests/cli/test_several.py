"""Web processes that die are replaced, however often, and told in the log."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from app.cli.processes.pauses import Pauses
from tests.support import patient_http
from tests.support.server import RunningProcess, running_service

pytestmark = [
    pytest.mark.lengthy,
    pytest.mark.skipif(
        not Path("/proc/self/task").exists(), reason="web processes are found by /proc"
    ),
]


def _web_processes(service: RunningProcess) -> list[int]:
    found = []
    for thread in Path(f"/proc/{service.process.pid}/task").iterdir():
        with suppress(OSError):
            found += [int(child) for child in (thread / "children").read_text().split()]
    return [
        child for child in found if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def test_dead_web_process_is_replaced_and_told(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--workers", "2") as service:
        patient_http.get(f"{service.url}/healthz")
        before = set(_web_processes(service))
        victim = min(before)
        os.kill(victim, signal.SIGKILL)
        service.wait_until_logged(f"web process died; another is started pid={victim}")
        after = set(_web_processes(service))
        exit_code = service.end()

    assert len(before) == len(after) == 2
    assert victim not in after
    assert exit_code == 0


def test_web_process_that_cannot_start_is_told_in_a_line_and_holds_up_no_end(
    sqlite_url: str,
) -> None:
    database = Path(sqlite_url.removeprefix("sqlite:///"))
    with running_service(sqlite_url, "--workers", "2") as service:
        patient_http.get(f"{service.url}/healthz")
        database.rename(database.with_suffix(".away"))
        os.kill(_web_processes(service)[0], signal.SIGKILL)
        service.wait_until_logged("web process died", times=2)
        exit_code = service.end()

    logged = "".join(service.lines)
    assert exit_code == 0
    assert "exit_code=-9" in logged
    assert "exit_code=1" in logged
    assert "web process cannot start: The database is at schema none" in logged
    assert "Run `trainfare migrate`" in logged
    assert "Traceback" not in logged


_WITHOUT_STARTUP = """
import socket
import uvicorn
from app.cli.failures import RefusedError
from app.cli.processes.several import WebProcesses

async def application(scope, receive, send):
    await send({"type": "lifespan.startup.failed", "message": "no room for a thread"})

if __name__ == "__main__":
    config = uvicorn.Config(application, workers=2, lifespan="on")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        try:
            WebProcesses(config, listening).run()
        except RefusedError as error:
            print(error)
"""


def test_web_process_that_cannot_start_up_ends_the_service_with_an_error(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(_WITHOUT_STARTUP)

    ended = subprocess.run(
        [sys.executable, tmp_path / "service.py"], capture_output=True, text=True, check=True
    )

    assert ended.stdout == "A web process cannot start up.\n"
    assert "no room for a thread" in ended.stderr


_WITHOUT_ROOM = """
import os
import resource
import signal
import socket
import sys
import uvicorn
from app.cli.failures import RefusedError
from app.cli.processes.several import WebProcesses

async def application(scope, receive, send):
    await send({"type": "lifespan.startup.complete"})

def allow_files(count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, HARD))

class CrowdedAtStart(WebProcesses):
    def init_processes(self):
        super().init_processes()
        allow_files(3)
        super().init_processes()

class CrowdedLater(WebProcesses):
    victim = None

    def keep_subprocess_alive(self):
        if self.victim is None:
            self.victim = self.processes[0]
            os.kill(self.victim.pid, signal.SIGKILL)
            self.victim.process.join()
            allow_files(3)
        super().keep_subprocess_alive()
        if self.victim is self.processes[0]:
            allow_files(SOFT)
        elif not self.should_exit.is_set():
            print("replaced")
            self.should_exit.set()

if __name__ == "__main__":
    SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
    config = uvicorn.Config(application, workers=1, lifespan="on")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.set_inheritable(True)
        try:
            globals()[sys.argv[1]](config, listening).run()
        except RefusedError as error:
            print(error)
"""


@pytest.mark.parametrize(
    ("case", "outcome"),
    [
        ("CrowdedAtStart", "The web processes cannot be started: Too many open files.\n"),
        ("CrowdedLater", "replaced\n"),
    ],
)
def test_web_process_for_which_there_is_no_room_is_told_and_started_later(
    tmp_path: Path, case: str, outcome: str
) -> None:
    (tmp_path / "service.py").write_text(_WITHOUT_ROOM)
    command = [sys.executable, str(tmp_path / "service.py"), case]

    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as started:
        try:
            told, log = started.communicate(timeout=60)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)

    assert told == outcome
    assert ("The web process cannot be started: Too many open files." in log) is (
        case == "CrowdedLater"
    )


def test_pauses_double_up_to_half_a_minute_and_begin_anew_after_ten() -> None:
    pauses = Pauses()

    assert [pauses.next_s(ran_s=599.0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [pauses.next_s(ran_s=ran_s) for ran_s in (600.0, 0.0, 0.0)] == [1, 2, 4]
