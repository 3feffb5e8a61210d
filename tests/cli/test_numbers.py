"""Numbers of options and fields: what has no end is refused by name before anything is asked."""

from pathlib import Path

import pytest

from app.cli.failures import UsageError
from app.cli.numbers import number_or_text
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e400"])
@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--deadline", ("recommend", "w", "epochs=1")),
        ("--time-budget", ("fit", "w")),
        ("--timeout", ("profile", "--workload", "w", "true")),
        ("--width", ("profile", "--workload", "w", "true")),
        ("--days", ("keys", "create", "--name", "ci", "--scope", "read", "--json")),
        ("--fail-probability", ("ci", "report", "runs.csv")),
        ("--min-effect", ("ci", "report", "runs.csv")),
    ],
)
def test_option_without_end_is_wrong_usage(
    terminal: Terminal, option: str, line: tuple[str, ...], number: str
) -> None:
    result = terminal.type(*line[:-1], f"{option}={number}", line[-1])

    assert result.exit_code == 2
    assert option in result.err


@pytest.mark.parametrize(
    "line",
    [
        ("recommend", "w", "workers=1,nan"),
        ("recommend", "w", "dataset_size=1e400"),
        ("profile", "--workload", "w", "-t", "workers=nan", "true"),
        ("profile", "--workload", "w", "-t", "workers=8", "-s", "workers=1,inf", "true"),
    ],
)
def test_field_without_end_is_wrong_usage_and_leaves_no_log(
    terminal: Terminal, line: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    result = terminal.type(*line)

    assert result.exit_code == 2
    assert "which is not a finite number" in result.err
    assert not any(tmp_path.iterdir())


def test_whole_numbers_stay_whole_as_far_as_json_is_exact() -> None:
    read = [number_or_text("epochs", text) for text in ("8", "-3", "0.5", "1e3", str(10**30))]

    assert [(type(number), number) for number in read] == [
        (int, 8), (int, -3), (float, 0.5), (float, 1000.0), (float, 1e30)
    ]  # fmt: skip
    assert number_or_text("gpu_type", "T4") == "T4"
    with pytest.raises(UsageError, match="epochs is 1e400"):
        number_or_text("epochs", "1e400")
