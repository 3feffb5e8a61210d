"""`trainfare ci report --from-spool`: kept runs are judged by their build, and stored once."""

import json
from pathlib import Path

import pytest
from trainfare_client import Client, ClientSettings
from trainfare_client.errors import SpoolError
from trainfare_client.spool import FlushReport, Spool

from client.tests.ci_steps import Step, fit, stored, write_runs
from client.tests.runs import make_run

pytestmark = pytest.mark.lengthy

_AWAY = "http://127.0.0.1:9"


def test_runs_that_collectors_kept_are_reported_once(
    step: Step, client: Client, settings: ClientSettings, workload: str
) -> None:
    spool = Spool(settings.spool)
    spool.append([make_run(workload, external_id="kept")])

    away = step.report("--from-spool", url=_AWAY)
    waiting = spool.waiting()
    result = step.report("--from-spool")
    empty = step.report("--from-spool")

    assert (away.code, result.code, empty.code) == (0, 0, 2)
    assert (waiting, spool.waiting()) == (1, 0)
    assert "There are no runs to report." in empty.out
    assert [run["external_id"] for run in stored(client, workload)] == ["kept"]


def test_kept_numbers_of_categories_are_reported_as_text(
    step: Step, client: Client, settings: ClientSettings, workload: str
) -> None:
    client.runs.upload(make_run(workload, parameters={"size": "auto"}))
    run = make_run(workload, external_id="kept", parameters={"size": 64})
    Path("runs.json").write_text(json.dumps(run))
    Spool(settings.spool).append([run])

    result = step.report("--from-spool")
    own_file = step.report("runs.json")

    assert (result.code, own_file.code) == (0, 4), result.out
    assert {"size": "64"} in [run["parameters"] for run in stored(client, workload)]


def test_runs_of_an_earlier_build_are_stored_and_not_judged(
    step: Step, client: Client, settings: ClientSettings, workload: str
) -> None:
    fit(client, workload)
    spool = Spool(settings.spool)
    for number, factor in ((1, 3.0), (2, 1.0)):
        [run] = json.loads(Path(write_runs(workload, factor=factor, build=str(number))).read_text())
        run["labels"] = {"git_sha": f"{number}f2e" * 10}
        spool.append([run])
        url = _AWAY if number == 1 else ""
        result = step.report("--from-spool", "--commit", f"{number}f2e" * 10, "--json", url=url)

    report = json.loads(result.out)
    labels = {run["external_id"]: run["labels"] for run in stored(client, workload)}
    assert result.code == 0
    assert "Runs of other commits are stored, not judged: 1 of 1." in result.err
    assert [run["external_id"] for run in report["runs"]] == ["build-2"]
    assert labels["build-1"] == {"git_sha": "1f2e" * 10}
    assert spool.waiting() == 0


def test_what_a_flush_left_behind_does_not_hide_the_runs_of_this_build(
    step: Step, client: Client, settings: ClientSettings, workload: str
) -> None:
    spool = Spool(settings.spool)
    spool.append([make_run(workload, external_id="left")])
    spool.take(FlushReport())
    spool.append([make_run(workload, external_id="fresh")])

    result = step.report("--from-spool", "--commit", "1f2e", "--json")

    reported = [run["external_id"] for run in json.loads(result.out)["runs"]]
    assert reported == ["left", "fresh"]
    assert len(stored(client, workload)) == 2
    assert spool.waiting() == 0


def test_build_that_measured_nothing_stores_what_waits_and_says_so(
    step: Step, client: Client, settings: ClientSettings, workload: str
) -> None:
    spool = Spool(settings.spool)
    spool.append([make_run(workload, external_id="other", labels={"git_sha": "abc"})])

    away = step.report("--from-spool", "--commit", "1f2e", url=_AWAY)
    waiting = spool.waiting()
    result = step.report("--from-spool", "--commit", "1f2e")

    assert (away.code, waiting) == (0, 1)
    assert result.code == 2
    assert "There are no runs to report." in result.out
    assert [run["external_id"] for run in stored(client, workload)] == ["other"]
    assert spool.waiting() == 0


def test_refused_run_of_an_earlier_build_changes_no_verdict(
    step: Step, settings: ClientSettings, workload: str
) -> None:
    spool = Spool(settings.spool)
    bad = make_run(workload, labels={"git_sha": "abc"}) | {"duration_seconds": -1.0}
    spool.append([bad, make_run(workload, labels={"git_sha": "1f2e"})])

    result = step.report("--from-spool", "--commit", "1f2e")

    assert result.code == 0
    assert "A run of another commit was refused" in result.out
    assert spool.waiting() == 0
    assert len(spool.rejected.read_text().splitlines()) == 1


def test_runs_that_collectors_label_with_the_merge_commit_are_of_the_build(
    github: Step, client: Client, settings: ClientSettings, workload: str
) -> None:
    Spool(settings.spool).append(
        [make_run(workload, external_id="merged", labels={"git_sha": "merge-commit"})]
    )

    result = github.report("--from-spool", "--no-comment", "--json")

    assert [run["external_id"] for run in json.loads(result.out)["runs"]] == ["merged"]
    assert len(stored(client, workload)) == 1


def test_runs_that_cannot_leave_the_spool_change_no_verdict(
    step: Step, workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spool(tmp_path / "spool.jsonl").append(json.loads(Path(write_runs(workload)).read_text()))

    def fail(_spool: Spool) -> None:
        raise SpoolError("The disk is full.")

    monkeypatch.setattr(Spool, "drop_taken", fail)
    result = step.report("--from-spool")

    assert result.code == 0
    assert "Warning: The disk is full. The next report sends its runs again." in result.out


def test_file_that_is_no_spool_is_wrong_usage(step: Step, settings: ClientSettings) -> None:
    settings.spool.write_text("workload,duration_seconds\nw,1\n")

    result = step.report("--from-spool")

    assert result.code == 2
    assert "is not a spool" in result.out
