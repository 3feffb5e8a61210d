"""A dead fitter is started again, sooner or later, and never takes the service with it."""

import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from typing_extensions import override

from app.cli.failures import RefusedError
from app.cli.processes.supervisor import Child, watch
from app.settings import Settings

_EXIT_CODE = 3


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
