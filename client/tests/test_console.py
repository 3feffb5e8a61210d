"""The command lines that flush the spool."""

import contextlib
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from trainfare_client import Client, ClientSettings
from trainfare_client.console import main
from trainfare_client.spool import Spool

from client.tests.faulty import Answer, faulty_server, problem
from client.tests.runs import make_run
from tests.support.terminal import Terminal


@contextlib.contextmanager
def interrupted_after(event: threading.Event) -> Iterator[None]:
    """Interrupt this process's main thread as one Ctrl-C does, once something has happened."""
    is_interrupted = threading.Event()
    main_thread = threading.main_thread().ident
    assert main_thread is not None

    def notice(number: int, frame: object) -> None:
        if not is_interrupted.is_set():
            is_interrupted.set()
            raise KeyboardInterrupt

    def interrupt() -> None:
        event.wait()
        # A signal that comes just before a system call does not end it: it is sent again.
        while not is_interrupted.wait(0.05):
            signal.pthread_kill(main_thread, signal.SIGINT)

    before = signal.signal(signal.SIGINT, notice)
    thread = threading.Thread(target=interrupt)
    thread.start()
    yield
    thread.join()
    signal.signal(signal.SIGINT, before)


def test_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"trainfare-client {version('trainfare-client')}\n"


def test_flush_uploads_what_waits(
    settings: ClientSettings, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Spool(settings.spool).append([make_run(workload)])
    options = ["--url", settings.url, "--spool", str(settings.spool)]

    waiting = main(["waiting", "--json", *options])
    code = main(["flush", *options])
    stdout = capsys.readouterr().out.splitlines()

    assert (waiting, code) == (0, 0)
    assert json.loads(stdout[0]) == {"waiting": 1}
    assert stdout[1] == "1 created, 0 duplicates, 0 refused, 0 unreadable"


def test_flush_names_numbers_that_were_sent_as_text(
    settings: ClientSettings, client: Client, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    client.runs.upload(make_run(workload, parameters={"size": "auto"}))
    Spool(settings.spool).append([make_run(workload, parameters={"size": 64})])

    code = main(["flush", "--url", settings.url, "--spool", str(settings.spool)])

    assert code == 0
    assert "Numbers of categories were sent as text: param.size." in capsys.readouterr().err


@pytest.mark.lengthy
def test_service_that_is_away_gives_its_own_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "spool.jsonl"
    Spool(file).append([make_run("w")])

    code = main(["flush", "--url", "http://127.0.0.1:9", "--spool", str(file)])

    assert code == 3
    assert "Remedy:" in capsys.readouterr().err


def test_refused_runs_are_named(
    settings: ClientSettings, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Spool(settings.spool).append([make_run(workload, colour="red")])

    code = main(["flush", "--url", settings.url, "--spool", str(settings.spool)])

    stderr = capsys.readouterr().err
    assert code == 1
    assert "colour" in stderr
    assert str(settings.spool.with_suffix(".rejected.jsonl")) in stderr


def test_unreadable_lines_are_told_by_the_exit_code(
    settings: ClientSettings, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Spool(settings.spool).append([make_run(workload)])
    with settings.spool.open("ab") as stream:
        stream.write(b'{"workload": "cut')

    code = main(["flush", "--url", settings.url, "--spool", str(settings.spool)])

    assert code == 1
    assert "1 created, 0 duplicates, 0 refused, 1 unreadable" in capsys.readouterr().out


def test_wrong_setting_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["waiting", "--url", "ftp://nowhere"])

    assert code == 2
    assert "TRAINFARE_URL" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["flush", "--spool", "spool.jsonl"], "Interrupted. Flush again"),
        (["ci", "report", "runs.csv", "--commit", "1f2e3d"], "Interrupted. Report again"),
        (["import", "csv", "runs.csv"], "Interrupted. Import again"),
    ],
)
def test_interrupted_command_says_so_shortly(
    command: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs.csv").write_text("workload,duration_seconds\nw,1\n")
    Spool(Path("spool.jsonl")).append([make_run("w")])

    with faulty_server(Answer(silence=True)) as server, interrupted_after(server.was_called):
        code = main([*command, "--url", server.url])

    assert code == 130
    assert capsys.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    "command", [["ci", "report", "runs.csv"], ["import", "csv", "runs.csv"], ["flush"]]
)
def test_address_that_is_none_is_wrong_usage(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs.csv").write_text("workload,duration_seconds\nw,1\n")

    assert main([*command, "--url", "nowhere"]) == 2


@pytest.mark.parametrize("option", ["--api-key", "--key"])
@pytest.mark.parametrize(
    "command",
    [["ci", "report", "runs.csv", "--commit", "1f2e3d"], ["import", "csv", "runs.csv"], ["flush"]],
)
def test_key_is_sent_by_either_name(
    command: list[str], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TRAINFARE_SPOOL", "spool.jsonl")
    Path("runs.csv").write_text("workload,duration_seconds\nw,1\n")
    Spool(Path("spool.jsonl")).append([make_run("w")])

    with faulty_server(problem(403, "forbidden")) as server:
        main([*command, option, "tf_key", "--url", server.url])

    (_, _, headers, _) = server.requests[0]
    assert headers["Authorization"] == "Bearer tf_key"


def test_service_command_line_flushes_too(
    settings: ClientSettings,
    workload: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Spool(settings.spool).append([make_run(workload)])
    terminal = Terminal(capsys, monkeypatch)

    result = terminal.type("flush", "--url", settings.url, "--spool", settings.spool, "--json")

    assert result.exit_code == 0
    assert result.document == {"created": 1, "duplicates": 0, "refused": 0, "unreadable": 0}


@pytest.mark.parametrize("words", [["ci", "report"], ["import", "mlflow"]])
def test_help_names_the_command_that_was_typed(
    capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*words, "--help"])

    assert capsys.readouterr().out.startswith(f"usage: trainfare-client {' '.join(words)} ")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
def test_output_without_room_is_told_in_a_line(tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "trainfare_client",
        "waiting",
        "--spool",
        str(tmp_path / "spool.jsonl"),
    ]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr == "Error: The output cannot be written: No space left on device.\n"
