"""What a block tells of the work that was done: its values, and its end."""

import asyncio
import dataclasses
import json
import math
import os
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from trainfare_client import Client, ClientSettings, record
from trainfare_client.collectors.recording import Recorder
from trainfare_client.spool import Spool


def _only_run(client: Client, workload: str) -> dict[str, Any]:
    (run,) = client.runs.all(workload)
    return dict(run)


def test_samples_give_the_epochs_where_nobody_says_them(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    with record(workload, dataset_size=40, settings=settings, quiet=True) as run:
        run.setup_is_over()
        run.step(samples=60)

    assert _only_run(client, workload)["work"]["epochs"] == 1.5


def test_numbers_of_numpy_are_numbers_and_what_is_no_number_is_left_out(
    client: Client, settings: ClientSettings, workload: str, caplog: pytest.LogCaptureFixture
) -> None:
    parameters: dict[str, Any] = {"depth": np.int64(3), "rate": np.float32(0.5), "loss": math.nan}

    with record(
        workload,
        dataset_size=np.int64(64),  # type: ignore[arg-type] # as in a script
        parameters=parameters,
        settings=settings,
        quiet=True,
    ):
        pass
    stored = _only_run(client, workload)

    assert stored["work"]["dataset_size"] == 64
    assert stored["parameters"] == {"depth": 3, "rate": 0.5}
    assert "loss is nan; it is left out" in caplog.text


def test_run_that_nobody_finished_before_its_first_step_ended_with_its_data(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    now = 0.0
    recorder = Recorder(workload, {"settings": settings, "quiet": True}, clock=lambda: now)
    recorder.setup_is_over()
    now = 1.5
    recorder.data_arrived(2)
    now = 3600.0
    recorder.finish_as_of_last_step("failed")

    assert _only_run(client, workload)["duration_seconds"] == 1.5


def test_parameters_of_a_trial_become_what_a_run_can_hold(
    client: Client, settings: ClientSettings, workload: str, caplog: pytest.LogCaptureFixture
) -> None:
    parameters: dict[str, Any] = {
        "batch_size": np.int64(32),
        "epochs": None,
        "layers": [16, 32],
        "decay": {"name": "cosine", "steps": {"warmup": 3}},
        "dropout": None,
        "amp": True,
        "workers": 4,
        "prompt": "x" * 101,
    }

    with record(workload, batch_size=64, settings=settings, quiet=True, parameters=parameters):
        pass
    with record(workload, settings=settings, quiet=True, parameters=parameters):
        pass
    second, first = client.runs.all(workload)

    assert first["parameters"] == {
        "amp": "true",
        "decay.name": "cosine",
        "decay.steps.warmup": 3,
        "layers": "[16, 32]",
    }
    assert (first["work"]["batch_size"], second["work"]["batch_size"]) == (64, 32)
    assert first["configuration"]["workers"] == 1
    assert "workers is left out: it is a field of the run. Pass workers=" in caplog.text
    assert "prompt is left out: it is longer than 100 characters" in caplog.text


def test_number_of_a_category_is_sent_as_text(
    client: Client, settings: ClientSettings, workload: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for size in ("auto", 64):
        with record(workload, settings=settings, parameters={"size": size, "rate": 0.5}):
            pass
    runs = client.runs.all(workload)

    assert [run["parameters"] for run in runs] == [
        {"size": "64", "rate": 0.5},
        {"size": "auto", "rate": 0.5},
    ]
    assert "Numbers of categories were sent as text: param.size." in capsys.readouterr().err


def test_word_of_a_number_waits_for_a_person(
    client: Client, settings: ClientSettings, workload: str, caplog: pytest.LogCaptureFixture
) -> None:
    for size in (64, "auto"):
        with record(workload, settings=settings, quiet=True, parameters={"size": size}):
            pass

    assert [run["parameters"] for run in client.runs.all(workload)] == [{"size": 64}]
    assert Spool(settings.spool).waiting() == 1
    assert "is a number. Send the type it was first used with" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"dataset_size": math.nan},
        {"epochs": math.inf},
        {"epochs": np.float32("nan")},
        {"nodes": math.nan},
        {"warmup_steps": math.nan},
        {"parameters": {"x": 10**5000}},
    ],
)
def test_fact_that_is_no_finite_number_is_left_out_and_named(
    options: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ClientSettings(spool=tmp_path / "spool.jsonl", offline=True)

    with record("w", **options, settings=settings, quiet=True):
        pass

    (name,) = options.get("parameters") or options
    (run,) = map(json.loads, settings.spool.read_text().splitlines())
    assert "it is left out" in caplog.text
    assert name in caplog.text
    assert name not in run["work"] | run["configuration"] | run["parameters"]


def test_seconds_and_samples_that_are_no_numbers_are_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ClientSettings(spool=tmp_path / "spool.jsonl", offline=True)

    with record("w", dataset_size=10, settings=settings, quiet=True) as run:
        run.phase("communication", math.nan)
        run.step(samples=20)
        run.step(samples=math.nan)

    (stored,) = map(json.loads, settings.spool.read_text().splitlines())
    assert "communication is nan; it is left out" in caplog.text
    assert "communication_seconds" not in stored["phases"]
    assert stored["work"]["epochs"] == 2


def test_run_that_makes_no_document_is_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ClientSettings(spool=tmp_path / "spool.jsonl", offline=True)
    options: dict[str, Any] = {"epochs": math.nan, "labels": {"host": math.nan}}

    with record("w", **options, settings=settings, quiet=True):
        pass

    assert "LostRunError: The run of w is lost" in caplog.text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TRAINFARE_URL", "nowhere"),
        ("TRAINFARE_API_KEY", "two words"),
        ("TRAINFARE_TIMEOUT_S", "soon"),
    ],
)
def test_run_of_a_training_with_wrong_settings_waits_in_the_spool(
    name: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINFARE_SPOOL", str(tmp_path / "spool.jsonl"))
    monkeypatch.setenv(name, value)

    with record("w", dataset_size=10, quiet=True):
        pass

    assert Spool(tmp_path / "spool.jsonl").waiting() == 1


def test_coroutine_is_recorded_to_its_end(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    @record(workload, dataset_size=10, settings=settings, quiet=True)
    async def train() -> str:
        await asyncio.sleep(0)
        raise MemoryError

    with pytest.raises(MemoryError):
        asyncio.run(train())

    assert _only_run(client, workload)["status"] == "out_of_memory"


@pytest.mark.parametrize("is_whole", [True, False])
def test_generator_is_recorded_to_its_end(
    client: Client, settings: ClientSettings, workload: str, *, is_whole: bool
) -> None:
    @record(workload, dataset_size=10, settings=settings, quiet=True)
    def train() -> Iterator[int]:
        yield from range(2)
        time.sleep(0.02)

    epochs = train()
    seen_epochs = list(epochs) if is_whole else [next(epochs)]
    del epochs
    run = _only_run(client, workload)

    assert seen_epochs == ([0, 1] if is_whole else [0])
    assert run["status"] == ("succeeded" if is_whole else "cancelled")
    assert (run["duration_seconds"] >= 0.02) == is_whole


def test_asynchronous_generator_is_recorded_to_its_end(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    @record(workload, dataset_size=10, settings=settings, quiet=True)
    async def train() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(0.02)

    async def consume() -> list[int]:
        return [number async for number in train()]

    assert asyncio.run(consume()) == [1]
    assert _only_run(client, workload)["duration_seconds"] >= 0.02


def test_what_a_collector_looks_up_first_is_no_part_of_the_run(
    settings: ClientSettings, workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = tmp_path / "git"
    git.write_text("#!/bin/sh\nsleep 1\n")
    git.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv("GITHUB_SHA", raising=False)
    offline = dataclasses.replace(settings, offline=True)

    with record(workload, dataset_size=1, settings=offline, quiet=True):
        pass

    (run,) = map(json.loads, settings.spool.read_text().splitlines())
    assert run["duration_seconds"] < 0.5
    assert run["phases"] == {}
