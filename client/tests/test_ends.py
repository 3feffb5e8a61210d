"""How the end of a process reaches the run."""

import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from trainfare_client.collectors.outcomes import EndWatch


@pytest.fixture(autouse=True)
def signal_kept() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_signal_ends_the_run_and_then_reaches_the_handler_before() -> None:
    statuses: list[Any] = []
    signal.signal(signal.SIGTERM, lambda number, _: statuses.append(number))
    watch = EndWatch(statuses.append)
    watch.start()

    signal.raise_signal(signal.SIGTERM)
    watch.stop()

    assert statuses == ["preempted", signal.SIGTERM]


def test_ignored_signal_stays_ignored() -> None:
    statuses: list[str] = []
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    watch = EndWatch(statuses.append)
    watch.start()

    signal.raise_signal(signal.SIGTERM)
    watch.stop()

    assert statuses == ["preempted"]
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_IGN


def test_handler_that_came_later_is_left_in_place() -> None:
    def later(number: int, frame: object) -> None:
        """The user's."""

    watch = EndWatch(print)
    watch.start()
    signal.signal(signal.SIGTERM, later)

    watch.stop()

    assert signal.getsignal(signal.SIGTERM) == later


def test_interpreters_end_without_an_exception_is_a_cancelled_run() -> None:
    statuses: list[str] = []

    EndWatch(statuses.append)._at_exit()

    assert statuses == ["cancelled"]


def test_last_error_of_an_interactive_session_may_be_any(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses: list[str] = []
    monkeypatch.setattr(sys, "last_value", ValueError("of a line before"), raising=False)

    EndWatch(statuses.append)._at_exit()
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    EndWatch(statuses.append)._at_exit()

    assert statuses == ["failed", "cancelled"]
