"""The client's commands against a real service with a fitter."""

import gzip
import os
from pathlib import Path

import pytest

from app.cli.client import check_fit
from app.cli.failures import FitFailedError
from app.domain.recommendations import Objective
from app.domain.zstd import zstd
from tests.support import patient_http
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy

_HEADER = "workload,external_id,duration_seconds,workers,dataset_size,batch_size,epochs\n"


def _csv(workload: str, *, rows: int = 24) -> str:
    lines = [
        f"{workload},r{index},{20 + size / (100 * workers) + index % 3},{workers},{size},32,1\n"
        for index, (workers, size) in enumerate(
            (workers, size) for workers in (1, 2, 4, 8) for size in range(1000, 7000, 1000)
        )
    ]
    return _HEADER + "".join(lines[:rows])


@pytest.fixture(autouse=True)
def service_set(terminal: Terminal, service_url: str) -> None:
    terminal.set(url=service_url)


@pytest.fixture
def profile(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A measured profile of a workload named for the test."""
    path = tmp_path / "runs.csv"
    path.write_text(_csv(_workload(request)))
    return path


def _workload(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name.replace("[", "-").replace("]", "").casefold()


def _fitted(terminal: Terminal, profile: Path, request: pytest.FixtureRequest) -> str:
    """Upload and fit; return the workload."""
    workload = _workload(request)
    terminal.type("upload", profile)
    terminal.type("fit", workload, "--time-budget", "5")
    return workload


def test_help_names_every_objective(terminal: Terminal) -> None:
    result = terminal.type("recommend", "--help")

    assert all(objective.value in result.out for objective in Objective)


def test_upload_tells_what_was_created_and_what_came_again(
    terminal: Terminal, profile: Path
) -> None:
    first = terminal.type("upload", profile)
    repeated = terminal.type("upload", profile, "--again")

    assert "24 created, 0 duplicates" in first.err
    assert "0 created, 24 duplicates" in repeated.err
    assert first.exit_code == repeated.exit_code == 0


def test_same_file_is_uploaded_once(terminal: Terminal, profile: Path) -> None:
    terminal.type("upload", profile)

    repeated = terminal.type("upload", profile)

    assert "nothing was stored again" in repeated.err


def test_refusal_is_not_told_again_once_it_was_mended(
    terminal: Terminal, profile: Path, request: pytest.FixtureRequest, service_url: str
) -> None:
    other = profile.with_name("other.csv")
    other.write_text(profile.read_text().replace(",32,1\n", ",64,1\n"))
    terminal.type("upload", other)
    refused = [terminal.type("upload", profile) for _ in range(2)]
    patient_http.delete(f"{service_url}/v1/workloads/{_workload(request)}")

    mended = terminal.type("upload", profile)
    repeated = terminal.type("upload", profile)

    assert all("run_conflict" in said.err for said in refused)
    assert "24 created" in mended.err
    assert "uploaded before" not in mended.err
    assert "uploaded before" in repeated.err


def test_what_is_checked_again_is_checked_anew(terminal: Terminal, profile: Path) -> None:
    first = terminal.type("upload", profile, "--dry-run")
    terminal.type("upload", profile)

    repeated = terminal.type("upload", profile, "--dry-run")

    assert "24 to be created, 0 duplicates; none was stored." in first.err
    assert "0 to be created, 24 duplicates; none was stored." in repeated.err
    assert "uploaded before" not in repeated.err


def test_files_behind_a_refused_one_are_named(terminal: Terminal, profile: Path) -> None:
    bad, last = profile.with_name("bad.csv"), profile.with_name("last.csv")
    bad.write_text(profile.read_text().replace(",32,1\n", ",-32,1\n", 1))
    last.write_text(profile.read_text())

    result = terminal.type("upload", profile, bad, last)

    assert result.exit_code == 1
    assert "24 created" in result.err
    assert f"{bad} was not stored. Not sent after it: {last}." in result.err


def test_compressed_files_are_uploaded(terminal: Terminal, profile: Path) -> None:
    packed = profile.with_name("packed.csv.gz")
    packed.write_bytes(gzip.compress(profile.read_bytes()))
    dense = profile.with_name("dense.csv.zst")
    dense.write_bytes(zstd.compress(profile.read_bytes()))

    result = terminal.type("upload", packed, dense, "--json")

    assert result.exit_code == 0
    assert result.out.count('"created": 24') == 1
    assert result.out.count('"duplicates": 24') == 1


def test_file_whose_name_is_no_utf8_is_uploaded(terminal: Terminal, profile: Path) -> None:
    file = profile.rename(profile.with_name(os.fsdecode(b"r\xff.csv")))

    result = terminal.type("upload", file, "--json")

    assert result.exit_code == 0
    assert Path(result.document["file"]).name == "r\N{REPLACEMENT CHARACTER}.csv"


def test_bad_rows_are_named_with_field_and_remedy(terminal: Terminal, profile: Path) -> None:
    profile.write_text(profile.read_text().replace(",32,1\n", ",-32,1\n", 1))

    result = terminal.type("upload", profile)

    assert result.exit_code == 1
    assert "invalid_rows" in result.err
    assert "row 1, batch_size" in result.err
    assert "Remedy: Fix the named rows and send all again; --skip-invalid takes" in result.err


def test_bad_rows_are_skipped_when_told_to(terminal: Terminal, profile: Path) -> None:
    profile.write_text(profile.read_text().replace(",32,1\n", ",-32,1\n", 1))

    result = terminal.type("upload", profile, "--skip-invalid")

    assert result.exit_code == 0
    assert "23 created" in result.err
    assert "row 1" in result.err


def test_skipped_row_with_a_cell_too_many_is_told_by_its_number(
    terminal: Terminal, profile: Path
) -> None:
    profile.write_text(profile.read_text().replace(",32,1\n", ",32,1,1\n", 1))

    result = terminal.type("upload", profile, "--skip-invalid")

    assert result.exit_code == 0
    assert "row 1: The row has 8 cells where the header has 7." in result.err


def test_dry_run_stores_nothing(terminal: Terminal, profile: Path) -> None:
    terminal.type("upload", profile, "--dry-run")

    result = terminal.type("upload", profile)

    assert "24 created" in result.err


def test_file_without_a_known_type_is_wrong_usage(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "runs.xlsx"
    path.write_bytes(b"")

    result = terminal.type("upload", path)

    assert result.exit_code == 2
    assert ".csv" in result.err


def test_fit_is_followed_to_its_end(
    terminal: Terminal, profile: Path, request: pytest.FixtureRequest
) -> None:
    terminal.type("upload", profile)

    result = terminal.type("fit", _workload(request), "--time-budget", "5", "--seed", "1")
    listed = terminal.type("workloads").out

    assert result.exit_code == 0
    assert "succeeded: version 1" in result.err
    assert "MAPE" in result.out
    assert _workload(request) in listed


def test_fit_without_waiting_returns_at_once(
    terminal: Terminal, profile: Path, request: pytest.FixtureRequest
) -> None:
    terminal.type("upload", profile)

    result = terminal.type("fit", _workload(request), "--no-wait")
    document = terminal.type("fit", _workload(request), "--no-wait", "--json").document
    other = terminal.type("fit", _workload(request), "--no-wait", "--publish", "never")

    assert result.exit_code == 0
    assert "under way already" not in result.err
    assert document["workload"] == _workload(request)
    assert "under way already" in other.err


def test_fit_of_an_unknown_workload_is_refused_with_a_remedy(terminal: Terminal) -> None:
    result = terminal.type("fit", "nobody")

    assert result.exit_code == 1
    assert "unknown_workload" in result.err
    assert "Remedy:" in result.err


def test_fit_that_ends_without_a_regressor_is_exit_code_4() -> None:
    fit = {"fit_id": "fit_1", "state": "failed", "problem": {"detail": "no idea"}}

    with pytest.raises(FitFailedError, match="no idea") as caught:
        check_fit(fit)

    assert caught.value.exit_code == 4


def test_forecast_shows_sentences_for_one_and_a_table_for_a_grid(
    terminal: Terminal, profile: Path, request: pytest.FixtureRequest
) -> None:
    workload = _fitted(terminal, profile, request)
    work = ("dataset_size=3000", "batch_size=32", "epochs=1")

    table = terminal.type("forecast", workload, "workers=1,2", *work)
    one = terminal.type("forecast", workload, "workers=2", *work, "--json").document
    limits = ("deadline_s=40", "budget=0.002", "price_per_hour=0.05", "explain=true")
    sentences = terminal.type("forecast", workload, "workers=2", *work, *limits).out
    compared = terminal.type("forecast", workload, "workers=1,2", *work, *limits).out

    assert table.exit_code == 0
    assert "90% interval" in table.out
    assert len(table.out.splitlines()) == 3
    assert "duration_seconds" in str(one)
    for said in ("It keeps the deadline with", "It keeps the budget with", "Where the time goes"):
        assert said in sentences
    for column in ("keeps the deadline", "keeps the budget", "where the time goes"):
        assert column in compared
        assert column not in table.out


def test_recommendation_is_ranked(
    terminal: Terminal, profile: Path, request: pytest.FixtureRequest
) -> None:
    workload = _fitted(terminal, profile, request)
    arguments = ("dataset_size=3000", "batch_size=32", "epochs=1", "workers=1,2,4",
             "price_per_hour=1.00")  # fmt: skip

    result = terminal.type("recommend", workload, *arguments, "--objective", "duration")
    document = terminal.type("recommend", workload, *arguments, "--json", "--limit", 2).document
    hopeless = terminal.type("recommend", workload, *arguments, "--deadline", 0.001)
    as_json = terminal.type("recommend", workload, *arguments, "--deadline", 0.001, "--json")

    assert result.exit_code == 0
    assert "duration" in result.out
    assert document["recommended"]
    assert (hopeless.exit_code, as_json.exit_code) == (1, 1)
    assert "Nearest:" in hopeless.out
    assert as_json.document["recommended"] is None


def test_what_has_no_price_is_told_how_the_command_takes_one(
    terminal: Terminal, profile: Path, request: pytest.FixtureRequest
) -> None:
    workload = _fitted(terminal, profile, request)
    arguments = (workload, "workers=2", "dataset_size=3000", "batch_size=32", "epochs=1")

    recommended = terminal.type("recommend", *arguments)
    forecast = terminal.type("forecast", *arguments)

    assert "give price_per_hour or" in recommended.err
    assert "Give price_per_hour, or" in forecast.out
    assert "pricing." not in recommended.err + forecast.out


def test_fields_of_no_part_are_wrong_usage(terminal: Terminal) -> None:
    assert terminal.type("recommend", "x", "colour=red").exit_code == 2
    assert terminal.type("forecast", "x", "workers").exit_code == 2


def test_service_that_is_away_is_exit_code_3(terminal: Terminal) -> None:
    result = terminal.type("workloads", "--url", "http://127.0.0.1:1")

    assert result.exit_code == 3
    assert "trainfare serve" in result.err


def test_address_of_something_else_is_exit_code_3(terminal: Terminal, service_url: str) -> None:
    result = terminal.type("workloads", "--url", f"{service_url}/docs?")

    assert result.exit_code == 3
    assert "not as this service does" in result.err


@pytest.mark.parametrize("url", ["nonsense", "ftp://127.0.0.1", "http://[::1"])
def test_what_is_no_address_is_said(terminal: Terminal, url: str) -> None:
    result = terminal.type("workloads", "--url", url)

    assert result.exit_code in {2, 3}
    assert "--url" in result.err


def test_address_without_its_scheme_is_told_how_to_be_written(terminal: Terminal) -> None:
    result = terminal.type("workloads", "--url", "localhost:8000")

    assert result.exit_code == 2
    assert "such as http://localhost:8000" in result.err


def test_wrong_key_is_refused(terminal: Terminal) -> None:
    result = terminal.type("workloads", "--key", "tf_wrong_key")

    assert result.exit_code == 1
    assert "unauthenticated" in result.err
    assert "--api-key (TRAINFARE_API_KEY)" in result.err


@pytest.mark.parametrize("option", ["--key", "--api-key"])
def test_key_that_is_none_is_refused_and_not_shown(terminal: Terminal, option: str) -> None:
    result = terminal.type("workloads", option, "two words")

    assert result.exit_code == 2
    assert "it is one word" in result.err
    assert "two words" not in result.err


@pytest.mark.parametrize("name", ["", "..", "w/runs", "../gpus"])
@pytest.mark.parametrize(
    "line", [("forecast",), ("fit",), ("profile", "-t", "workers=2", "true", "--workload")]
)
def test_name_that_leads_elsewhere_is_wrong_usage(
    terminal: Terminal, line: tuple[str, ...], name: str
) -> None:
    result = terminal.type(*line, name)

    assert result.exit_code == 2
    assert f"{name!r} is not a workload's name" in result.err


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (("workers=",), "workers has no value"),
        (("workers=8", "workers=9"), "workers is given twice: 8 and 9"),
    ],
)
def test_field_without_value_or_given_twice_is_refused(
    terminal: Terminal, fields: tuple[str, ...], fault: str
) -> None:
    result = terminal.type("forecast", "w", *fields)

    assert result.exit_code == 2
    assert fault in result.err


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "http://", "http://127.0.0.1:99999"])
def test_address_of_nothing_to_be_asked_is_wrong_usage(terminal: Terminal, url: str) -> None:
    result = terminal.type("workloads", "--url", url)

    assert result.exit_code == 2
    assert "trying again" not in result.err
