"""Plain tables become runs, whole or not at all."""

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest
from trainfare_client import Client

from client.tests.importing import Importing, written
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy

_TABLE = "elapsed_ms,gpus,kind,rows\n1500,1,T4,1000\n900,2,T4,1000\n"
_OPTIONS = [
    *("--map", "duration_s=elapsed_ms*0.001"),
    *("--map", "workers=gpus"),
    *("--map", "gpu_type=kind"),
    *("--map", "dataset_size=rows"),
    *("--set", "label.origin=lab"),
]


def test_map_turns_columns_into_fields(importing: Importing, tmp_path: Path) -> None:
    file = written(tmp_path / "lab.csv", _TABLE)

    first, second = importing.dry("csv", file, "--workload", "lab", *_OPTIONS)

    assert first["duration_seconds"] == "1.5"
    assert second["workers"] == "2"
    assert second["gpu_type"] == "T4"
    assert second["label.origin"] == "lab"
    assert first["external_id"] != second["external_id"]


def test_columns_of_an_upload_need_no_map_and_others_are_named(
    importing: Importing, tmp_path: Path
) -> None:
    file = written(tmp_path / "a.csv", "workload;duration_s;param.depth;colour\nw;2,5;3;red\n")

    answer = importing("csv", file, "--dry-run")
    mended = importing("csv", written(file, file.read_text().replace("2,5", "2.5")), "--dry-run")

    assert answer.exit_code == 1
    assert f"{file}:2: duration_seconds '2,5' is not a number." in answer.err
    assert mended.rows[0]["param.depth"] == "3"
    assert "Not read: the columns colour." in mended.err


@pytest.mark.parametrize("mark", [",", ";"])
def test_spreadsheet_with_empty_columns_and_rows_is_read(
    mark: str, importing: Importing, tmp_path: Path
) -> None:
    table = "\ufeffworkload,duration_seconds,workers,,\r\nw,1.5,2,,\r\n,,,,\r\nw,2.5,4\r\n,,\r\n"
    file = written(tmp_path / "a.csv", table.replace(",", mark))

    answer = importing("csv", file, "--dry-run")

    assert [row["workers"] for row in answer.rows] == ["2", "4"]
    assert "Not read" not in answer.err


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_end_as_on_any_system(importing: Importing, tmp_path: Path, end: str) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(end.join(["workload,duration_s", "w,5", "w,6", "w,7,8", ""]).encode())

    result = importing("csv", file, "--dry-run", "--skip-invalid")

    assert [row["duration_seconds"] for row in result.rows] == ["5", "6"]
    assert f"Left out: {file}:4: The row has 3 cells" in result.err


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_of_a_cell_stay_apart(importing: Importing, tmp_path: Path, end: str) -> None:
    file = tmp_path / "a.csv"
    table = f'workload,duration_s,external_id,label.note{end}w,5,r1,"two{end}lines"{end}'
    file.write_bytes(table.encode())

    (row,) = importing.dry("csv", file)

    assert row["label.note"].splitlines() == ["two", "lines"]


def test_id_of_several_lines_is_refused(uploading: Importing, tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", 'workload,duration_s,external_id\nw,5,"two\nlines"\n')

    result = uploading("csv", file)

    assert result.exit_code == 1
    assert "external_id 'two\\nlines': It has characters that cannot be printed" in result.err


def test_cell_beside_the_table_is_named(importing: Importing, tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "workload,duration_seconds,,\nw,1.5,,seen\n")

    answer = importing("csv", file, "--dry-run")

    assert answer.exit_code == 1
    assert f"{file}:2: The row has 4 cells where the header has 2." in answer.err


def test_decimal_commas_move_no_cells(importing: Importing, tmp_path: Path) -> None:
    table = "workload,duration_seconds,workers,dataset_size\nw,100,5,8,\n"
    file = written(tmp_path / "a.csv", table)

    answer = importing("csv", file, "--dry-run")

    assert answer.exit_code == 1
    assert f"{file}:2: The row has 5 cells where the header has 4." in answer.err


@pytest.mark.parametrize("line", ["sep=;", "sep=;;;"])
def test_line_of_a_spreadsheet_tells_the_separator(
    importing: Importing, tmp_path: Path, line: str
) -> None:
    table = f"{line}\r\nworkload;duration_seconds\r\nw;1.5\r\nw;x\r\n"
    file = written(tmp_path / "a.csv", table)

    answer = importing("csv", file, "--dry-run", "--skip-invalid")

    assert [row["duration_seconds"] for row in answer.rows] == ["1.5"]
    assert f"{file}:4: duration_seconds 'x' is not a number." in answer.err


def test_map_says_which_of_several_columns_a_field_is(importing: Importing, tmp_path: Path) -> None:
    table = "workload,duration_s,run_id,external_id\nw,1,a,b\n"
    file = written(tmp_path / "lab.csv", table)

    (row,) = importing.dry("csv", file, "--map", "external_id=run_id")

    assert row["external_id"] == "a"


def test_importing_twice_creates_nothing_new(
    uploading: Importing, client: Client, workload: str, tmp_path: Path
) -> None:
    table = _TABLE + "900,2,T4,1000\n"
    file = written(tmp_path / "lab.csv", table)
    again = written(tmp_path / "renamed.csv", table + "800,4,T4,1000\n")

    first = uploading("csv", file, "--workload", workload, *_OPTIONS)
    second = uploading("csv", file, "--workload", workload, *_OPTIONS)
    longer = uploading("csv", again, "--workload", workload, *_OPTIONS)

    assert first.out == f"{workload}: 3 runs created, 0 already there\n"
    assert second.out == f"{workload}: 0 runs created, 3 already there\n"
    assert longer.out == f"{workload}: 1 run created, 3 already there\n"
    assert len(list(client.runs.all(workload))) == 4


def test_bad_rows_are_named_by_file_and_line_and_nothing_is_stored(
    uploading: Importing, client: Client, workload: str, tmp_path: Path
) -> None:
    good = written(tmp_path / "good.csv", f"workload,duration_seconds\n{workload},1\n")
    bad = written(
        tmp_path / "bad.csv", f"workload,duration_seconds\n{workload},2\n\n{workload},x\n"
    )
    short = written(tmp_path / "short.csv", f"workload,duration_seconds\n{workload}\n")

    answer = uploading("csv", good, bad, short)

    assert answer.exit_code == 1
    assert f"{bad}:4: duration_seconds 'x' is not a number." in answer.err
    assert f"{short}:2: The row has 1 cells where the header has 2." in answer.err
    assert "2 rows are bad; nothing was imported." in answer.err
    with pytest.raises(Exception, match="unknown_workload"):
        list(client.runs.all(workload))


def test_rows_that_the_service_refuses_are_named_by_file_and_line(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    file = written(
        tmp_path / "a.csv",
        f"workload,duration_seconds,workers\n{workload},1,1\n{workload},2,1.5\n",
    )

    refused = uploading("csv", file)
    skipped = uploading("csv", file, "--skip-invalid", "--json")

    assert refused.exit_code == 1
    assert f"{file}:3: workers '1.5': " in refused.err
    assert '"created": 1' in skipped.out
    assert f'"place": "{file}:3"' in skipped.out


def test_good_rows_are_imported_where_bad_ones_are_skipped(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    file = written(
        tmp_path / "a.csv",
        "duration_seconds,workers,status\n1,1,\n0,1,\n2,0.5,\n1,1,gone\n-3,1,succeeded\n",
    )

    answer = uploading("csv", file, "--workload", workload, "--skip-invalid")

    assert answer.out == f"{workload}: 1 run created, 0 already there\n"
    for line in (3, 4, 5, 6):
        assert f"Left out: {file}:{line}: " in answer.err


def test_words_of_other_tools_tell_how_runs_ended(importing: Importing, tmp_path: Path) -> None:
    states = ["finished", "crashed", "killed", "Timed Out", "OOM", "running"]
    table = "".join(f"{state},5\n" for state in states)
    file = written(tmp_path / "wandb.csv", f"State,duration_seconds\n{table}")

    answer = importing("csv", file, "--workload", "w", "--map", "status=State", "--dry-run")

    assert [row["status"] for row in answer.rows] == [
        "succeeded",
        "failed",
        "cancelled",
        "timed_out",
        "out_of_memory",
    ]
    assert "Left out: 1 runs that have not ended\n" in answer.err


def test_cell_of_blanks_is_absent(importing: Importing, tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "duration_s,status,run_id\n 5 ,  , \n  ,failed,r2\n")

    answer = importing("csv", file, "--workload", "w", "--dry-run", "--skip-invalid")

    assert [row.keys() for row in answer.rows] == [{"workload", "external_id", "duration_seconds"}]
    assert answer.rows[0]["external_id"].startswith("csv:")
    assert "a.csv:3: The run's duration is empty." in answer.err


def test_column_that_tells_how_runs_ended_is_not_passed_over_in_silence(
    importing: Importing, tmp_path: Path
) -> None:
    file = written(tmp_path / "wandb.csv", "State,duration_seconds\ncrashed,5\n")
    warning = "Without --map status=State every run counts as succeeded"

    answer = importing("csv", file, "--workload", "w", "--dry-run")
    settled = importing("csv", file, "--workload", "w", "--dry-run", "--set", "status=failed")

    assert warning in answer.err
    assert warning not in settled.err


def test_warnings_of_the_service_count_their_rows(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    rows = "duration_seconds,param.precision\n5,fp16\n6,FP16\n7,fp16\n"

    answer = uploading("csv", written(tmp_path / "a.csv", rows), "--workload", workload)

    assert "has 'FP16' beside 'fp16': they count as different values." in answer.err
    assert answer.err.endswith(" (1 row)\n")


@pytest.mark.parametrize("begin", ["\n\n", "\r\n", "\nsep=;\n\n"])
def test_empty_lines_before_the_header_do_not_count(
    importing: Importing, tmp_path: Path, begin: str
) -> None:
    file = written(tmp_path / "a.csv", f"{begin}workload;duration_seconds\nw;5\nw;x\n")

    answer = importing("csv", file, "--dry-run", "--skip-invalid")

    assert [row["duration_seconds"] for row in answer.rows] == ["5"]
    line = begin.count("\n") + 3
    assert f"{file}:{line}: duration_seconds 'x' is not a number" in answer.err


def test_another_content_under_the_same_id_is_a_conflict(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    table = f"workload,run_id,duration_seconds\n{workload},r1,%s\n"
    uploading("csv", written(file, table % 1))

    answer = uploading("csv", written(file, table % 2))

    assert answer.exit_code == 1
    assert "run_conflict" in answer.err


def test_conflict_over_what_is_missing_names_the_field(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    table = f"workload,run_id,duration_seconds,label.branch\n{workload},r1,1,%s\n"
    uploading("csv", written(file, table % "main"))

    answer = uploading("csv", written(file, table % ""))

    assert f"{file}:2: label.branch: Run 'r1' is stored with main; this row has" in answer.err


def test_table_comes_by_standard_input_and_compressed(
    importing: Importing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\ufeffduration_seconds\tnote\n5\t'=1+1\n".encode()
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(text))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    options = ["--workload", "w", "--map", "label.note=note"]

    packed = importing.dry("csv", tmp_path / "a.csv.gz", *options)
    piped = importing.dry("csv", "-", *options, "--delimiter", r"\t")

    assert packed == piped
    # A mark before it keeps spreadsheets from taking it for a formula.
    assert packed[0]["label.note"] == "''=1+1"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no header"),
        (b"\n", "no header"),
        (b"a,a\n1,2\n", "Several columns are named 'a'"),
        (b"run_id,external_id\n1,2\n", "run_id and external_id are both external_id"),
        (b"duration_seconds,duration_s\n1,2\n", "--map duration_seconds=duration_seconds"),
        (b"Workload,duration_s\nw,1\n", "Not read: the columns Workload."),
        (b"a,b\n\xff,1\n", "not UTF-8"),
        ("a,b\n1,2\n".encode("utf-16"), "It is text in UTF-16."),
        (b"PK\x03\x04\x14\x00\x06\x00", "It is a spreadsheet or another zip archive."),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "Save it as text in UTF-8, a table as CSV"),
        (b'a,b\n"1,2\n', "It is not CSV"),
        (b"workload,duration_seconds\n", "There are no runs to import."),
        (b"workload\nw\n", "duration is not known"),
        (b"workload,duration_seconds\nw,\n", "duration is empty"),
        (b"duration_seconds\n1\n", "workload is not known"),
    ],
)
def test_what_is_no_table_of_runs_is_refused(
    content: bytes, said: str, importing: Importing, tmp_path: Path
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(content)

    answer = importing("csv", file, "--dry-run")

    assert answer.exit_code == 1
    assert said in answer.err


def test_service_that_is_away_leaves_nothing_behind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = written(tmp_path / "a.csv", "workload,duration_seconds\nw,1\n")

    answer = Importing(capsys, "http://127.0.0.1:9")("csv", file)

    assert answer.exit_code == 3
    assert "Remedy:" in answer.err


def test_command_is_one_of_both_command_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from trainfare_client.console import main  # noqa: PLC0415 - beside the other one

    file = written(tmp_path / "a.csv", "workload,duration_seconds\nw,1\n")

    assert main(["import", "csv", str(file), "--dry-run"]) == 0
    own = capsys.readouterr().out
    of_service = Terminal(capsys, monkeypatch).type("import", "csv", file, "--dry-run")

    assert own == of_service.out
    assert own.startswith("workload,external_id,duration_seconds\nw,csv:")


def test_reader_that_has_seen_enough_ends_a_dry_run_in_peace(tmp_path: Path) -> None:
    rows = "".join(f"w,{number + 1}\n" for number in range(20_000))
    file = written(tmp_path / "a.csv", f"workload,duration_seconds\n{rows}")
    command = [sys.executable, "-m", "trainfare_client", "import", "csv", str(file), "--dry-run"]

    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(Path(__file__).parents[1])},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()

    assert (process.returncode, errors) == (0, b"")


@pytest.mark.parametrize("option", [["--delimiter", "::"], ["--timezone", "Mars/Olympus"]])
def test_wrong_option_is_wrong_usage(
    option: list[str], importing: Importing, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as end:
        importing("sacct", tmp_path / "a.txt", *option)

    assert end.value.code == 2
