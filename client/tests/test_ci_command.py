"""`trainfare ci report`: runs in, verdict, Markdown, comment, annotations and exit code out."""

import json
from pathlib import Path

import pytest
from trainfare_client import Client
from trainfare_client.spool import Spool

from client.tests.ci_steps import Step, fit, stored, write_runs
from client.tests.forge import Forge
from client.tests.runs import make_run
from tests.support.terminal import Terminal

pytestmark = pytest.mark.lengthy

_AWAY = "http://127.0.0.1:9"
_NEEDS_A_FULL_DISK = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="only Linux has a disk that is full"
)


def test_a_first_report_passes_and_says_what_is_missing(
    step: Step, client: Client, workload: str
) -> None:
    result = step.report(write_runs(workload), "--commit", "1f2e")

    assert result.code == 0
    assert "These are the first runs of the workload." in result.out
    assert [run["labels"]["git_sha"] for run in stored(client, workload)] == ["1f2e"]


def test_a_usual_run_passes_and_a_slower_one_fails(
    step: Step, client: Client, workload: str, tmp_path: Path
) -> None:
    fit(client, workload)

    usual = step.report(write_runs(workload), "--output", "comment.md")
    Path("slow.csv").write_text(
        "workload,duration_seconds,gpu_type,workers,dataset_size,batch_size,epochs,label.build\n"
        f"{workload},60.5,T4,2,4000,32,1,17\n"
    )
    slow = step.report("slow.csv", "--summary", "summary.md")

    assert (usual.code, slow.code) == (0, 1)
    assert "As forecast" in usual.out
    assert Path("comment.md").read_text().startswith(f"<!-- trainfare:ci {workload} -->\n")
    assert "Error: " in slow.out
    assert "**fail**" in Path("summary.md").read_text()
    assert "trainfare:ci" not in Path("summary.md").read_text()
    assert stored(client, workload)[0]["labels"]["build"] == "17"


def test_the_gate_is_the_callers(step: Step, client: Client, workload: str) -> None:
    slow = write_runs(workload, factor=2)
    missing = step.report(slow, "--on-insufficient-data", "fail")
    fit(client, workload)

    lenient = step.report(slow, "--min-effect", "5", "--runs-per-month", "40", "--json")

    assert missing.code == 1
    assert "Error: Nothing could be judged: " in missing.out
    assert "The gate fails builds that cannot be judged." in missing.out
    assert lenient.code == 0
    assert json.loads(lenient.out)["verdict"] == "pass"
    assert "slower by 500 % fail the build; 5 % would be --min-effect 0.05" in lenient.err
    assert "--min-effect" not in missing.err


def test_github_gets_annotations_a_summary_outputs_and_one_comment(
    github: Step, forge: Forge, client: Client, workload: str, tmp_path: Path
) -> None:
    fit(client, workload)
    github.set_environment(GITHUB_API_URL=forge.url, GITHUB_TOKEN=forge.token)
    other = [forge.write(17, f"> <!-- trainfare:ci {workload} --> number {n}") for n in range(120)]

    first = github.report(write_runs(workload, factor=1.8), "--output", "comment.md")
    second = github.report(write_runs(workload, build="2"))

    outputs = (tmp_path / "output.txt").read_text().splitlines()
    (ours,) = [body for body in forge.bodies(17) if body.startswith("<!--")]
    assert (first.code, second.code) == (1, 0)
    assert "::error title=Trainfare::" in first.out
    assert "%25" in first.out
    assert outputs[:2] == ["verdict=fail", "exit-code=1"]
    assert outputs[3] == "comment-file=comment.md"
    assert len(forge.comments) == len(other) + 1
    assert "as forecast" in ours
    assert "The comment was edited." in second.err
    assert (tmp_path / "summary.md").read_text().count("### Training cost") == 2


def test_github_names_commit_and_branch_of_the_pull_request(
    github: Step, client: Client, workload: str
) -> None:
    result = github.report(write_runs(workload), "--json")

    report = json.loads(result.out)
    named = [report[name] for name in ("commit", "branch", "base_branch", "pull_request")]
    assert named == ["abc123", "deeper", "main", "17"]
    assert stored(client, workload)[0]["excluded"]


def test_a_step_that_is_repeated_stores_nothing_twice(
    github: Step, client: Client, workload: str
) -> None:
    run = make_run(workload)
    Path("runs.ndjson").write_text(json.dumps(run) + "\n")

    first = github.report("runs.ndjson", "--json")
    second = github.report("runs.ndjson", "--json")

    assert json.loads(first.out)["report_id"] == json.loads(second.out)["report_id"]
    assert len(stored(client, workload)) == 1


@pytest.mark.parametrize("system", ["git", "gitlab"])
def test_a_step_that_is_repeated_elsewhere_stores_no_run_twice(
    system: str, step: Step, client: Client, workload: str
) -> None:
    # The retried job of a pipeline has another address.
    pipeline = {"GITLAB_CI": "true", "CI_PROJECT_ID": "7", "CI_PIPELINE_ID": "8841"}
    Path("runs.csv").write_text(
        f"workload,duration_seconds,workers\n{workload},5,1\n{workload},5,1\n"
    )
    commit = ["--commit", "1f2e"]
    if system == "gitlab":
        step.set_environment(**pipeline, CI_JOB_URL="https://here.example/1")

    first = step.report("runs.csv", "--json", *commit)
    step.set_environment(CI_JOB_URL="https://here.example/2")
    second = step.report("runs.csv", "--json", *commit)
    reported = [json.loads(result.out)["runs"] for result in (first, second)]

    assert [run["run_id"] for run in reported[0]] == [run["run_id"] for run in reported[1]]
    assert len(stored(client, workload)) == 2


def test_the_same_numbers_of_another_commit_or_branch_are_another_run(
    step: Step, client: Client, workload: str
) -> None:
    Path("runs.json").write_text(json.dumps(make_run(workload)))

    for args in (["--commit", "1f2e"], ["--commit", "3d4c"], ["--commit", "3d4c", "--branch", "b"]):
        step.report("runs.json", *args)

    assert len(stored(client, workload)) == 3


def test_branch_without_a_known_base_is_warned_of(step: Step, workload: str) -> None:
    runs = write_runs(workload)

    unknown = step.report(runs, "--branch", "deeper")
    known = step.report(runs, "--branch", "deeper", "--base-branch", "main")

    assert "runs of deeper count as normal" in unknown.err
    assert "normal" not in known.err


def test_pull_request_of_jenkins_is_kept_out_of_the_history(
    step: Step, client: Client, workload: str
) -> None:
    step.set_environment(
        JENKINS_URL="https://ci.example/",
        BRANCH_NAME="PR-17",
        CHANGE_BRANCH="deeper",
        CHANGE_TARGET="main",
        CHANGE_ID="17",
        GIT_COMMIT="abc123",
    )

    step.report(write_runs(workload))

    assert stored(client, workload)[0]["excluded"]


def test_a_comment_that_is_refused_is_a_warning(github: Step, forge: Forge, workload: str) -> None:
    github.set_environment(GITHUB_API_URL=forge.url, GITHUB_TOKEN="of-a-fork")

    result = github.report(write_runs(workload))
    quiet = github.report(write_runs(workload), "--no-comment")

    assert result.code == quiet.code == 0
    assert "::warning title=Trainfare::The comment could not be written" in result.out
    assert "::warning" not in quiet.out
    assert forge.comments == {}


def test_gitlab_gets_a_note_that_is_edited(
    step: Step, forge: Forge, client: Client, workload: str
) -> None:
    step.set_environment(
        GITLAB_CI="true",
        CI_COMMIT_SHA="abc123",
        CI_JOB_URL=workload,
        CI_MERGE_REQUEST_IID="5",
        CI_MERGE_REQUEST_SOURCE_BRANCH_NAME="main",
        CI_MERGE_REQUEST_TARGET_BRANCH_NAME="main",
        CI_MERGE_REQUEST_SOURCE_PROJECT_PATH="bob/nets",
        CI_MERGE_REQUEST_PROJECT_PATH="ada/nets",
        CI_PROJECT_ID="42",
        CI_API_V4_URL=forge.url,
        GITLAB_TOKEN=forge.token,
    )

    first = step.report(write_runs(workload), "--json")
    second = step.report(write_runs(workload, build="2"))
    conflict = step.report(write_runs(workload, factor=1.01))

    assert json.loads(first.out)["branch"] == "bob:main"
    assert "written" in first.err
    assert "edited" in second.err
    assert conflict.code == 4
    assert "Error: " in conflict.out
    assert len(forge.bodies(5)) == 1
    assert stored(client, workload)[0]["excluded"]


def test_service_that_is_away_warns_and_lets_the_build_go_on(
    github: Step, workload: str, tmp_path: Path
) -> None:
    runs = write_runs(workload)

    patient = github.report(runs, url=_AWAY)
    strict = github.report(runs, "--strict", url=_AWAY)

    assert (patient.code, strict.code) == (0, 3)
    assert "::warning title=Trainfare::Nothing was judged" in patient.out
    assert "::error title=Trainfare::Nothing was judged" in strict.out
    assert "not judged" in (tmp_path / "summary.md").read_text()
    assert "verdict=unavailable" in (tmp_path / "output.txt").read_text()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("runs.txt", "x"),
        ("runs.json", "[1]"),
        ("runs.json", "{"),
        ("runs.json", '[{"workload": "w", "duration_seconds": NaN}]'),
        ("runs.ndjson", '{"workload": "w", "duration_seconds": 1e400}'),
        ("runs.csv", "workload,duration_seconds\nw,1,2\n"),
        ("runs.csv", "workload,duration_seconds\n"),
        ("runs.csv", "workload;duration_seconds\nw;5\n"),
    ],
)
def test_files_that_hold_no_runs_are_wrong_usage(step: Step, name: str, content: str) -> None:
    Path(name).write_text(content)

    result = step.report(name)

    assert result.code == 2
    assert result.out.startswith("Error: ")


def test_missing_file_and_wrong_options_are_wrong_usage(step: Step) -> None:
    assert step.report("nowhere.json").code == 2
    with pytest.raises(SystemExit, match="2"):
        step.report("--min-effect", "much")


def test_empty_lines_before_the_header_do_not_count(step: Step, workload: str) -> None:
    Path("runs.csv").write_text(f"\n\nworkload,duration_seconds\n{workload},5\n")

    assert step.report("runs.csv").code == 0


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0b"])
def test_cells_with_marks_that_end_no_line_are_named(step: Step, workload: str, mark: str) -> None:
    note = f"one{mark}two"
    table = f"workload,duration_seconds,label.note\n{workload},5,{note}\n"
    Path("runs.csv").write_text(table, encoding="utf-8")

    result = step.report("runs.csv")

    assert result.code == 4
    assert f"runs.csv, row 1, label.note {note!r}: " in result.out


def test_line_separators_end_no_run(step: Step, workload: str) -> None:
    run = {"workload": workload, "duration_seconds": 6, "labels": {"note": "one\u2028two"}}
    lines = json.dumps(run, ensure_ascii=False)
    Path("runs.ndjson").write_text(f"{lines}\n", encoding="utf-8")

    result = step.report("runs.ndjson")

    assert result.code == 4
    assert "characters that cannot be printed" in result.out


def test_values_that_are_no_numbers_stay_refused(
    step: Step, service_url: str, workload: str
) -> None:
    with Client(service_url) as client:
        client.runs.upload(make_run(workload, parameters={"depth": 50}))
    Path("runs.csv").write_text(f"workload,duration_seconds,param.depth\n{workload},5,deep\n")

    result = step.report("runs.csv")

    assert result.code == 4
    assert "schema_drift" in result.out


def test_refused_runs_are_named(step: Step, workload: str) -> None:
    Path("runs.json").write_text(json.dumps({"workload": workload, "batchsize": 3}))

    result = step.report("runs.json")

    assert result.code == 4
    assert "batch_size" in result.out


def test_service_command_line_reports_too(
    step: Step,
    service_url: str,
    workload: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal(capsys, monkeypatch)

    result = terminal.type("ci", "report", write_runs(workload), "--url", service_url, "--json")

    assert result.exit_code == 0
    assert result.document["verdict"] == "insufficient_data"


@pytest.mark.parametrize("option", ["--output", "--summary"])
@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("no/where.md", "No such file or directory"),
        pytest.param("/dev/full", "No space left on device", marks=_NEEDS_A_FULL_DISK),
    ],
)
def test_verdict_stands_where_a_file_cannot_be_written(
    step: Step, client: Client, workload: str, option: str, file: str, reason: str, tmp_path: Path
) -> None:
    fit(client, workload)
    spool = Spool(tmp_path / "spool.jsonl")
    spool.append(json.loads(Path(write_runs(workload, factor=3.0)).read_text()))

    result = step.report("--from-spool", option, file)

    assert result.code == 1
    assert "Slower than forecast" in result.out
    assert f"Warning: {file} cannot be written: {reason}." in result.out
    assert spool.waiting() == 0


def test_verdict_stands_where_the_outputs_cannot_be_written(
    github: Step, workload: str, tmp_path: Path
) -> None:
    github.set_environment(GITHUB_OUTPUT=str(tmp_path))

    result = github.report(write_runs(workload), "--no-comment")

    assert result.code == 0
    assert "::warning title=Trainfare::" in result.out


def test_refused_cells_are_named_by_file_row_and_value_a_line_each(
    step: Step, workload: str
) -> None:
    head = "workload,duration_seconds,workers,epochs\n"
    Path("good.csv").write_text(f"{head}{workload},12,2,1\n")
    Path("bad.csv").write_text(
        f"{head}{workload},12,2,1\n{workload},13,eight,1\n{workload},-5,2,1\n"
    )
    run = {"workload": workload, "external_id": "build-9", "duration_seconds": "soon"}
    Path("bad.json").write_text(json.dumps(run))

    result = step.report("good.csv", "bad.csv", "bad.json")

    assert result.code == 4
    first, second, third, summary = result.out.splitlines()
    assert first == (
        "Error: bad.csv, row 2, workers 'eight': workers is not a number."
        " Write a number, such as 4 or 0.5."
    )
    assert second.startswith("Error: bad.csv, row 3, duration_seconds '-5': duration_seconds is")
    assert third.startswith("Error: run build-9, duration_seconds 'soon': duration_seconds is a")
    assert summary.startswith("Error: ")
    assert "invalid_rows" in summary


def test_many_refused_rows_are_counted(step: Step, workload: str) -> None:
    rows = "".join(f"{workload},-{number}\n" for number in range(1, 26))
    Path("bad.csv").write_text(f"workload,duration_seconds\n{rows}")

    result = step.report("bad.csv")

    assert len(result.out.splitlines()) == 22
    assert "Error: ... and 5 more." in result.out
