"""A dead fitter is started again, sooner or later, and never takes the service with it."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest
from typing_extensions import override

from app.cli.failures import RefusedError
from app.cli.processes.supervisor import Child, watch
from app.settings import Settings

_EXIT_CODE = 3
_PATIENCE_S = 30.0


class _Fitter(Child):
    """A fitter that dies as soon as it is started; what happens at each start is given."""

    def __init__(self, *starts: Callable[[], None]) -> None:
        self._starts = list(starts)
        self.process, self.started_at = _dead(), float("inf")

    @override
    def restart(self) -> None:
        self._starts.pop(0)()
        self.process = _dead()


class _Service(Child):
    """A service that runs until the test ends it."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", "input()"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE)


class _Brief(Child):
    """A child whose command ends at once; its first process did long ago."""

    def __init__(self) -> None:
        self._name, self._command = "brief", [sys.executable, "-c", ""]
        self._environment = dict(os.environ)
        self.process, self.started_at = _dead(), float("-inf")


class _Living(subprocess.Popen[bytes]):
    """A process that goes on, and ends the test when it has been looked at twice."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self._stop, self._looks = stop, 0

    @override
    def poll(self) -> int | None:
        self._looks += 1
        if self._looks == 2:
            self._stop.set()
        return super().poll()


def _dead() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({_EXIT_CODE})"])
    process.wait()
    return process


def _no_room() -> None:
    raise RefusedError("The fitter cannot be started: Resource temporarily unavailable.")


def _pauses_s(caplog: pytest.LogCaptureFixture) -> list[float]:
    return [vars(record)["restart_in_s"] for record in caplog.records]


@pytest.fixture
def stop() -> threading.Event:
    """Set by the last start of a fitter."""
    return threading.Event()


def _watch(fitter: Child, stop: threading.Event, caplog: pytest.LogCaptureFixture) -> None:
    service = _Service()
    with caplog.at_level(logging.ERROR):
        watch(service, fitter, stop, pause_s=0.01)
    assert service.process.poll() is None
    service.process.communicate(b"\n")


def test_fitter_for_which_there_is_no_room_is_started_later(
    stop: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    _watch(_Fitter(_no_room, _no_room, stop.set), stop, caplog)

    assert [record.message for record in caplog.records] == [
        "fitter died",
        *["The fitter cannot be started: Resource temporarily unavailable. "] * 2,
    ]
    assert _pauses_s(caplog) == [0.01, 0.02, 0.04]


def test_child_for_which_there_is_no_room_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    with pytest.raises(RefusedError, match="The fitter cannot be started: No such file"):
        Child("fitter", Settings(), "fitter")


@pytest.mark.lengthy
def test_pause_grows_while_fitters_die_young_and_falls_back_after_one_that_lasted(
    stop: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    def last() -> None:
        fitter.started_at = float("-inf")

    def die_young() -> None:
        fitter.started_at = float("inf")

    fitter = _Fitter(die_young, die_young, last, die_young, stop.set)

    _watch(fitter, stop, caplog)

    assert _pauses_s(caplog) == [0.01, 0.02, 0.04, 0.01, 0.02]


def test_fitter_that_lives_is_left_alone(
    stop: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    fitter = _Fitter()
    fitter.process = living = _Living(stop)

    _watch(fitter, stop, caplog)

    living.communicate(b"\n")
    assert fitter.process is living
    assert not caplog.records


def test_child_that_is_started_again_is_as_young_as_its_process() -> None:
    child, before = _Brief(), time.monotonic()
    dead = child.process

    child.restart()

    child.process.communicate()
    assert child.process is not dead
    assert before <= child.started_at <= time.monotonic()


def test_child_that_does_not_end_in_time_is_killed() -> None:
    child = _Service()

    with child.process:
        assert child.wait(time.monotonic()) == -signal.SIGKILL


def test_child_that_is_told_to_end_is_waited_for() -> None:
    child = _Service()

    with child.process:
        child.end()
        assert child.wait(time.monotonic() + _PATIENCE_S) == -signal.SIGTERM
        child.end()  # it has ended already
