"""The service as a process: it listens, refuses what is unsafe, and ends by one signal."""

import logging
import os
import re
import signal
import threading
import time
from pathlib import Path

import httpx2
import pytest
from typing_extensions import override

from app.cli.processes.supervisor import Child, watch
from app.settings import Settings
from tests.support import patient_http
from tests.support.server import RunningProcess, running_service, start_process
from tests.support.signals import handled
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy
_PATIENCE_S = 30.0


def test_service_answers_until_sigterm_and_ends_with_0(sqlite_url: str) -> None:
    with running_service(sqlite_url) as service:
        answer = patient_http.get(f"{service.url}/v1/nothing")
        exit_code = service.end()

    assert answer.json()["code"] == "not_found"
    assert exit_code == 0
    assert "stopped" in service.lines[-1]


def test_several_web_processes_answer_on_one_address_until_sigint(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--workers", "2") as service:
        answer = patient_http.get(f"{service.url}/v1/nothing")
        service.process.send_signal(signal.SIGINT)
        exit_code = service.wait()

    assert answer.status_code == 404
    assert exit_code == 0


@pytest.mark.parametrize("arguments", [[], ["--workers", "2"]])
def test_terminal_that_is_closed_ends_the_service_in_order(
    sqlite_url: str, arguments: list[str]
) -> None:
    with (
        handled(signal.SIGHUP, signal.SIG_DFL),
        running_service(sqlite_url, *arguments) as service,
    ):
        service.process.send_signal(signal.SIGHUP)
        exit_code = service.wait()

    assert exit_code == 0
    assert "stopped" in service.lines[-1]


def _lives(service: RunningProcess) -> float:
    """Return how many answers of `/healthz` the metrics tell."""
    text = patient_http.get(f"{service.url}/metrics").text
    [count] = re.findall(r'trainfare_http_requests_total\{.*"/healthz".*\} (\S+)', text)
    return float(count)


def test_metrics_are_those_of_all_web_processes_whichever_answers(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--workers", "2") as service:
        for _ in range(40):
            patient_http.get(f"{service.url}/healthz")
        # Siblings write what they counted once a second.
        told, until = [0.0], time.monotonic() + 60
        while set(told) != {41.0} and time.monotonic() < until:
            told = [_lives(service) for _ in range(20)]

    assert set(told) == {41.0}


def test_listening_beyond_loopback_without_a_key_is_refused(sqlite_url: str) -> None:
    process = start_process("serve", "--host", "0.0.0.0", "--port", "0", database_url=sqlite_url)

    process.wait_for_line("No usable API key exists")
    process.wait_for_line("Remedy: Create a key")

    assert process.wait() == 1


@pytest.mark.parametrize("command", ["serve", "serve --with-fitter", "fitter"])
def test_first_start_without_a_database_names_what_makes_one(
    terminal: Terminal, tmp_path: Path, command: str
) -> None:
    terminal.set(data_dir=tmp_path / "new")

    result = terminal.type(*command.split())

    assert result.exit_code == 1
    assert f"There is no database at {tmp_path / 'new' / 'trainfare.db'}" in result.err
    assert "`trainfare migrate` creates a new one" in result.err
    assert not (tmp_path / "new").exists()


def test_unmigrated_database_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "new.db").touch()

    process = start_process("serve", "--port", "0", database_url=f"sqlite:///{tmp_path}/new.db")

    process.wait_for_line("Remedy: Run `trainfare migrate`")

    assert process.wait() == 1


def test_taken_port_is_refused_by_name(sqlite_url: str) -> None:
    with running_service(sqlite_url) as service:
        port = service.url.rpartition(":")[2]
        second = start_process("serve", "--port", port, database_url=sqlite_url)
        second.wait_for_line(f"Cannot listen on 127.0.0.1:{port}")

    assert second.wait() == 1


def test_bad_setting_stops_the_start_with_its_name(sqlite_url: str) -> None:
    process = start_process("serve", database_url=sqlite_url, lease_s=-1)

    process.wait_for_line("TRAINFARE_LEASE_S")

    assert process.wait() == 2


def _child_pid(service: RunningProcess, process: str) -> int:
    text = "".join(service.lines)
    return int(re.findall(rf"started child={process} pid=(\d+)", text)[0])


def test_one_signal_ends_service_and_fitter(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--with-fitter") as service:
        service.wait_until_logged("fitter started")
        service.process.terminate()
        service.process.wait(_PATIENCE_S)
        with pytest.raises(ProcessLookupError):  # the fitter was waited for
            os.kill(_child_pid(service, "fitter"), 0)
        exit_code = service.wait()

    assert exit_code == 0
    logged = "".join(service.lines)
    assert "fitter stopped" in logged
    assert "stopped url=" in logged


def test_log_of_requests_is_written_where_it_is_asked_for(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--access-log") as service:
        patient_http.get(f"{service.url}/v1/nothing?access_token=tf_a_secret")
        service.end()

    [line] = [line for line in service.lines if '"GET /v1/nothing HTTP/1.1" 404' in line]
    assert "method=GET path=/v1/nothing status=404" in line
    assert not any("secret" in line for line in service.lines)


def test_log_of_requests_keeps_a_key_in_the_path_to_itself(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--access-log") as service:
        patient_http.get(f"{service.url}/v1/tf_0a1b_5ec4e7/{'x' * 9000}")
        service.end()

    [line] = [line for line in service.lines if '"GET /v1/tf_0a1b_.../xxx' in line]
    assert len(line) < 5_000
    assert not any("5ec4e7" in line for line in service.lines)


def test_dead_fitter_is_started_again(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--with-fitter") as service:
        service.wait_until_logged("fitter started")
        os.kill(_child_pid(service, "fitter"), signal.SIGKILL)
        service.wait_until_logged("fitter died")
        service.wait_until_logged("fitter started", times=2)
        exit_code = service.end()

    assert exit_code == 0


def test_death_of_the_service_ends_all_with_an_error(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--with-fitter") as service:
        service.wait_until_logged("fitter started")
        pid = _child_pid(service, "service")
        os.kill(pid, signal.SIGKILL)
        exit_code = service.wait()

    assert exit_code == 1
    assert "ended by itself" in "".join(service.lines)


class _Heard(logging.Handler):
    """Tells when something was logged."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.event = threading.Event()

    @override
    def emit(self, record: logging.LogRecord) -> None:
        self.event.set()


def test_death_of_the_service_is_noticed_while_a_dead_fitter_is_let_rest(sqlite_url: str) -> None:
    settings = Settings(database_url=sqlite_url, port=0)
    children = Child("service", settings, "serve"), Child("fitter", settings, "fitter")
    service, fitter = (child.process for child in children)
    stop, heard = threading.Event(), _Heard()
    watching = threading.Thread(target=watch, args=(*children, stop), kwargs={"pause_s": 3600.0})
    supervisor = logging.getLogger(watch.__module__)
    supervisor.addHandler(heard)

    watching.start()
    fitter.kill()
    is_dead = heard.event.wait(_PATIENCE_S)
    service.kill()
    watching.join(_PATIENCE_S)
    is_watching = watching.is_alive()

    stop.set()
    supervisor.removeHandler(heard)
    for process in (service, fitter):
        process.communicate()
    assert is_dead
    assert not is_watching


def test_children_end_when_their_supervisor_is_killed(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--with-fitter") as service:
        service.wait_until_logged("fitter started")
        service.process.kill()
        service.wait()

    # Standard error is read to its end, which comes when the last child has closed it.
    assert "fitter stopped" in "".join(service.lines)


def test_web_processes_end_when_the_one_that_started_them_is_killed(sqlite_url: str) -> None:
    with running_service(sqlite_url, "--workers", "2") as service:
        patient_http.get(f"{service.url}/healthz")
        service.process.kill()
        service.wait()  # until the last of them has closed its standard error

    with pytest.raises(httpx2.ConnectError):
        patient_http.get(f"{service.url}/healthz")


def test_serve_migrates_when_it_is_told_to(tmp_path: Path) -> None:
    with running_service(f"sqlite:///{tmp_path}/new.db", "--migrate") as service:
        assert patient_http.get(f"{service.url}/healthz").status_code == 200


def test_misspelt_setting_is_named_with_the_nearest_one(sqlite_url: str) -> None:
    misspelt = {"TRAINFARE_REQUIRE_KEY": "true", "TRAINFARE_TCP_SERVICE_HOST": "10.0.0.1"}
    process = start_process(
        "serve", "--host", "0.0.0.0", "--port", "0", database_url=sqlite_url, environment=misspelt
    )

    process.wait_for_line(
        "no setting has this name variable=TRAINFARE_REQUIRE_KEY nearest=TRAINFARE_REQUIRE_KEYS"
    )

    assert process.wait() == 1
    assert not any("TRAINFARE_TCP" in line for line in process.lines)
