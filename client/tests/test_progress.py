"""Progress bars: on terminals alone."""

import io
import sys

import pytest
from trainfare_client.progress import ProgressBar
from typing_extensions import override


class Screen(io.StringIO):
    """A stream that says that it is a terminal."""

    @override
    def isatty(self) -> bool:
        return True


def closed_stream() -> io.StringIO:
    """Return a stream that nobody reads any more."""
    stream = io.StringIO()
    stream.close()
    return stream


def test_bar_grows_on_a_terminal() -> None:
    screen = Screen()

    with ProgressBar("runs", total=4, stream=screen) as bar:
        bar.advance(1)
        bar.advance(3)

    assert " 25%" in screen.getvalue()
    assert screen.getvalue().endswith("100%\n")


def test_unknown_total_is_counted() -> None:
    screen = Screen()

    with ProgressBar("runs", stream=screen) as bar:
        bar.advance(10_000)

    assert "10,000 runs" in screen.getvalue()


def test_nothing_is_drawn_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("runs", total=1) as bar:
        bar.advance(1)

    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("stream", [None, object(), closed_stream()])
def test_program_without_standard_error_draws_nothing(
    stream: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)

    with ProgressBar("runs", total=2) as bar:
        bar.advance(1)
