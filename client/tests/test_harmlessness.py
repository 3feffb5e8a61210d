"""Faults of the service, the disk and the user never reach the training."""

import logging
import time
from pathlib import Path
from typing import Any

import pytest
from trainfare_client import Client, ClientSettings, record
from trainfare_client.collectors.delivering import Delivery
from trainfare_client.collectors.ray_jobs import with_driver_facts
from trainfare_client.errors import UndeliveredError
from trainfare_client.spool import Spool

from client.tests.faulty import Answer, faulty_server, problem
from client.tests.runs import make_run

_CLOSED = "http://127.0.0.1:9"


def _settings(url: str, folder: Path, **changes: Any) -> ClientSettings:
    return ClientSettings(
        url=url, spool=folder / "spool.jsonl", attempts=2, first_pause_s=0, **changes
    )


def _train(settings: ClientSettings, **options: Any) -> str:
    with record("w", settings=settings, **options) as run:
        run.step(samples=1)
    return "trained"


@pytest.mark.parametrize(
    "answer",
    [
        problem(500, "internal"),
        problem(503, "regressor_unavailable"),
        problem(429, "quota_exceeded"),
        problem(401, "unauthenticated"),
        problem(422, "invalid_rows"),
        Answer(200, b"<html>"),
        Answer(201, b"[]"),
        Answer(silence=True),
    ],
)
def test_run_waits_when_the_service_fails(answer: Answer, tmp_path: Path) -> None:
    with faulty_server(answer) as server:
        settings = _settings(server.url, tmp_path, timeout_s=0.2)

        assert _train(settings) == "trained"

    assert Spool(settings.spool).waiting() == 1


def test_run_waits_when_the_service_is_down_and_the_user_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = _settings(_CLOSED, tmp_path)

    assert _train(settings) == "trained"

    assert Spool(settings.spool).waiting() == 1
    assert "trainfare-client flush" in capsys.readouterr().err


def test_slow_service_keeps_the_training_no_longer_than_the_deadline(tmp_path: Path) -> None:
    with faulty_server(Answer(silence=True)) as server:
        settings = _settings(server.url, tmp_path, timeout_s=300)
        delivery = Delivery(make_run("w"), settings, deadline_s=0.05)
        delivery.upload()
        sentence = delivery.settle()

        assert "has not answered" in sentence
        assert Spool(settings.spool).waiting() == 1


def test_refused_run_is_kept_and_the_refusal_told(tmp_path: Path) -> None:
    with faulty_server(problem(401, "unauthenticated")) as server:
        settings = _settings(server.url, tmp_path)
        delivery = Delivery(make_run("w"), settings)
        delivery.upload()
        with pytest.raises(UndeliveredError, match=r"Do so.*waits in .*spool\.jsonl"):
            delivery.settle()

    assert Spool(settings.spool).waiting() == 1


def test_full_disk_is_logged_once_and_the_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "spool.jsonl").symlink_to("/dev/full")

    with caplog.at_level(logging.WARNING):
        assert _train(_settings(_CLOSED, tmp_path)) == "trained"

    assert [record.name for record in caplog.records] == ["trainfare_client"]
    assert "Free disk space" in caplog.text


def test_folder_that_cannot_be_made_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("no folder")

    with caplog.at_level(logging.WARNING):
        assert _train(_settings(_CLOSED, blocked)) == "trained"

    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "options",
    [{"batchsize": 3}, {"labels": 7}, {"parameters": {"x": object()}}, {"warmup_steps": 0}],
)
def test_wrong_options_never_reach_the_training(options: dict[str, Any], tmp_path: Path) -> None:
    assert _train(_settings(_CLOSED, tmp_path), **options) == "trained"


def test_misspelt_option_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        _train(_settings(_CLOSED, tmp_path), batchsize=3)

    assert "batchsize" in caplog.text


def test_refusal_is_told_once_whatever_was_complained_of_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        faulty_server(problem(401, "unauthenticated")) as server,
        caplog.at_level(logging.WARNING),
    ):
        _train(_settings(server.url, tmp_path), batchsize=3)
    first, second = (record.getMessage() for record in caplog.records)

    assert "batchsize" in first
    assert "UndeliveredError" in second


def test_wrong_settings_in_the_environment_reach_neither_the_training_nor_another_service(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TRAINFARE_SPOOL", str(tmp_path / "spool.jsonl"))
    monkeypatch.setenv("TRAINFARE_URL", "ftp://nowhere")

    with caplog.at_level(logging.WARNING), record("w") as run:
        run.step("no number")  # type: ignore[arg-type] # as a script may do

    assert "TRAINFARE_URL" in caplog.text
    assert len(caplog.records) == 1
    assert "kept; the run waits in" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [{"TRAINFARE_URL": "ftp://nowhere"}, {"TRAINFARE_SPOOL": "/"}],
    ids=lambda each: [*each],
)
def test_wrong_settings_of_a_driver_never_reach_its_ray_job(
    wrong: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)

    with caplog.at_level(logging.WARNING):
        options = with_driver_facts({"labels": None, "epochs": 3})  # type: ignore[typeddict-item] # as a script may do

    assert options["epochs"] == 3
    assert next(iter(wrong)) in caplog.text


def test_run_arrives_after_the_service_came_back(
    tmp_path: Path, settings: ClientSettings, client: Client, workload: str
) -> None:
    away = _settings(_CLOSED, settings.spool.parent)
    began = time.monotonic()
    with record(workload, settings=away, quiet=True):
        pass

    report = client.flush()
    (run,) = client.runs.all(workload)

    assert report.created == 1
    assert run["duration_seconds"] <= time.monotonic() - began
