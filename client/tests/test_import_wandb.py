"""Runs in the local folders of Weights & Biases."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from client.tests.importing import Importing
from client.tests.wandb_logs import (
    IDENT,
    environment,
    exit_record,
    items,
    log,
    message,
    run_record,
    statistics,
    summary,
    written_run,
)

_CONFIG = {
    "batch_size": 32,
    "num_train_epochs": 3,
    "optimizer": {"name": "sgd", "lr": 0.1, "nesterov": True, "betas": [0.9, 1]},
    "notes": None,
}


def test_run_becomes_a_row_with_its_work(importing: Importing, tmp_path: Path) -> None:
    written_run(
        tmp_path,
        message((1, 7), (15, "unknown"), (2, b"history")),
        run_record(config=_CONFIG),
        environment("NVIDIA A100-SXM4-40GB", 8),
        statistics("gpu.0.gpu", "gpu.process.0.memoryAllocatedBytes", "gpu.process.3.gpu", "cpu"),
        summary({"loss": 0.5, "_runtime": 60.9, "_step": 7, "gpu_utilization": 0.75}),
        summary({"loss": 0.25, "_runtime": 61.5, "label": "x", "best": float("nan")}),
        message((5, message(*items({"optimizer.lr": 0.2})))),
        exit_record(runtime_s=61),
    )

    (row,) = importing.dry("wandb", tmp_path / "wandb", "--map", "param.loss=summary.loss")

    assert row == {
        "workload": "res-net",
        "external_id": "wandb:Res Net/r1",
        "status": "succeeded",
        "duration_seconds": "61.5",
        "started_at": "2026-11-21T11:03:20.500+00:00",
        "gpu_type": "NVIDIA A100-SXM4-40GB",
        "workers": "2",
        "batch_size": "32",
        "epochs": "3",
        "param.loss": "0.25",
        "param.optimizer.betas": "[0.9,1]",
        "param.optimizer.lr": "0.2",
        "param.optimizer.name": "sgd",
        "param.optimizer.nesterov": "true",
        "resource.gpu_utilization": "0.75",
        "label.git_sha": "1f2e3d",
        "label.group": "sweep",
        "label.run_name": "try-1",
    }


def test_folder_run_and_log_tell_the_same(importing: Importing, tmp_path: Path) -> None:
    run = written_run(tmp_path, run_record(config=_CONFIG), exit_record())
    (tmp_path / "wandb" / "latest-run").symlink_to(run.name)

    paths = [tmp_path, tmp_path / "wandb", run, run / "run-r1.wandb"]
    rows = [importing.dry("wandb", path) for path in paths]

    assert [len(found) for found in rows] == [1, 1, 1, 1]
    assert all(found == rows[0] for found in rows)


def test_messages_over_several_blocks_are_read(importing: Importing, tmp_path: Path) -> None:
    padding = [message((2, b"x" * size)) for size in (32_740, 3, 100_000)]
    config = {"prompt": "x" * 70_000, "depth": 4}
    written_run(tmp_path, *padding, run_record(config=config), *padding, exit_record())

    answer = importing("wandb", tmp_path, "--dry-run")

    assert [row["param.depth"] for row in answer.rows] == ["4"]
    assert "Left out: 1 parameters whose name or value is too long" in answer.err


@pytest.mark.parametrize(
    ("records", "status"),
    [
        ([exit_record(0)], "succeeded"),
        ([exit_record(1)], "failed"),
        ([exit_record((1 << 64) - 9)], "failed"),
        ([exit_record(255)], "cancelled"),
        ([message((23, b"")), exit_record(1)], "preempted"),
        ([message((23, b"")), exit_record(0)], "succeeded"),
    ],
)
def test_end_is_told(
    records: list[bytes], status: str, importing: Importing, tmp_path: Path
) -> None:
    written_run(tmp_path, run_record(), *records)

    (row,) = importing.dry("wandb", tmp_path)

    assert (row["status"], row["duration_seconds"]) == (status, "61.0")


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([run_record(), summary({"_runtime": 5})], "runs that have not ended, or were killed"),
        ([run_record(), exit_record(1, 0)], "runs of less than a second"),
        ([message((2, b"history"))], "logs that break off before they name their run"),
    ],
)
def test_what_is_no_measured_run_is_left_out(
    records: list[bytes], reason: str, importing: Importing, tmp_path: Path
) -> None:
    written_run(tmp_path, *records)
    written_run(tmp_path, run_record("r2"), exit_record(), run_id="r2")

    answer = importing("wandb", tmp_path, "--dry-run")

    assert [row["external_id"] for row in answer.rows] == ["wandb:Res Net/r2"]
    assert f"Left out: 1 {reason}" in answer.err


def test_log_that_breaks_off_has_not_ended(importing: Importing, tmp_path: Path) -> None:
    run = written_run(tmp_path, run_record(), exit_record())
    file = run / "run-r1.wandb"
    whole = file.read_bytes()

    for length in range(len(IDENT), len(whole)):
        file.write_bytes(whole[:length])
        answer = importing("wandb", tmp_path, "--dry-run")
        assert (answer.exit_code, "Left out: 1" in answer.err) == (1, True)


@pytest.mark.parametrize("left_bytes", range(9))
@pytest.mark.parametrize("n_before", [1, 2])
def test_log_may_end_or_go_on_anywhere_in_a_block(
    left_bytes: int, n_before: int, importing: Importing, tmp_path: Path
) -> None:
    records = [run_record(), exit_record()]
    # Field and length take four bytes, the head of the chunk seven.
    padding_bytes = 32_768 - left_bytes - len(log(records[:n_before])) - 4 - 7
    padding = message((2, b"x" * padding_bytes))
    assert len(log([padding, *records[:n_before]])) == 32_768 - left_bytes
    file = tmp_path / "run-r1.wandb"
    file.write_bytes(log([padding, *records]))

    (row,) = importing.dry("wandb", file)

    assert row["external_id"] == "wandb:Res Net/r1"


def test_damaged_log_is_named_and_the_others_can_be_imported(
    importing: Importing, tmp_path: Path
) -> None:
    damaged = written_run(tmp_path, run_record(), exit_record()) / "run-r1.wandb"
    written_run(tmp_path, run_record("r2"), exit_record(), run_id="r2")
    text = bytearray(damaged.read_bytes())
    text[20] ^= 1
    damaged.write_bytes(text)

    refused = importing("wandb", tmp_path, "--dry-run")
    rows = importing.dry("wandb", tmp_path, "--skip-invalid")

    assert refused.exit_code == 1
    assert f"{damaged}: It is damaged at byte 7." in refused.err
    assert [row["external_id"] for row in rows] == ["wandb:Res Net/r2"]


def test_last_session_of_a_resumed_run_counts(importing: Importing, tmp_path: Path) -> None:
    first, second = "offline-run-20261121_090000", "run-20261122_090000"
    written_run(tmp_path, run_record(), exit_record(1, 30), session=first)
    written_run(tmp_path, run_record(), exit_record(0, 90), session=second)

    answer = importing("wandb", tmp_path, "--dry-run")

    assert [row["duration_seconds"] for row in answer.rows] == ["90.0"]
    assert "Left out: 1 earlier sessions of resumed runs" in answer.err


def test_sessions_that_are_named_one_by_one_count_as_those_of_their_folder(
    importing: Importing, tmp_path: Path
) -> None:
    written_run(tmp_path, run_record(), exit_record(1, 30), session="run-20261121_090000")
    last = written_run(tmp_path, run_record(), exit_record(0, 90), session="run-20261122_090000")
    (tmp_path / "wandb" / "latest-run").symlink_to(last.name)
    named = sorted((tmp_path / "wandb").iterdir(), reverse=True)

    one_by_one = importing("wandb", *named, "--dry-run")
    whole = importing("wandb", tmp_path, "--dry-run")

    assert [row["duration_seconds"] for row in one_by_one.rows] == ["90.0"]
    assert one_by_one == whole


@pytest.mark.parametrize(
    ("options", "workers"),
    [
        ([], None),
        (["--map", "workers=gpu_count"], "8"),
        (["--set", "workers=2"], "2"),
        (["--map", "workers=config.world"], "4"),
    ],
)
def test_number_of_gpus_that_no_one_knows_is_asked_for(
    options: list[str], workers: str | None, importing: Importing, tmp_path: Path
) -> None:
    record = run_record(config={"world": 4})
    seen = statistics("gpu.0.gpu", "gpu.7.gpu", "gpu.process.0.gpu")
    written_run(tmp_path, record, environment("NVIDIA L4", 8), seen, exit_record())

    answer = importing("wandb", tmp_path, "--dry-run", *options)

    if workers is None:
        assert answer.exit_code == 1
        assert "Its machine has 8 GPUs" in answer.err
        assert "--map workers=gpu_count" in answer.err
    else:
        assert [row["workers"] for row in answer.rows] == [workers]


@pytest.mark.parametrize(
    ("document", "gpu_type"),
    [
        ({"gpu": "Tesla T4", "gpu_count": 1, "git": {"commit": "c"}}, "Tesla T4"),
        ({"gpu": 3, "gpu_count": "1", "git": []}, None),
        ([], None),
    ],
)
def test_older_versions_name_the_gpu_in_a_file(
    document: object, gpu_type: str | None, importing: Importing, tmp_path: Path
) -> None:
    run = written_run(tmp_path, run_record(), exit_record())
    (run / "files").mkdir()
    (run / "files" / "wandb-metadata.json").write_text(json.dumps(document))

    (row,) = importing.dry("wandb", tmp_path)

    assert row.get("gpu_type") == gpu_type


_BARE = message((17, message((1, "r1"), (3, "Res Net"))))


@pytest.mark.parametrize(
    ("records", "metadata", "commit"),
    [
        ([run_record(), message((26, message((9, message((2, "e"))))))], "f", "1f2e3d"),
        ([_BARE, message((26, message((9, message((2, "e"))))))], "f", "e"),
        ([_BARE], "f", "f"),
        ([_BARE], 3, None),
    ],
)
def test_commit_is_that_of_the_run_then_of_the_machine_then_of_the_file(
    records: list[bytes],
    metadata: object,
    commit: str | None,
    importing: Importing,
    tmp_path: Path,
) -> None:
    run = written_run(tmp_path, *records, exit_record())
    (run / "files").mkdir()
    document = json.dumps({"git": {"commit": metadata}})
    (run / "files" / "wandb-metadata.json").write_text(document)

    (row,) = importing.dry("wandb", tmp_path)

    assert row.get("label.git_sha") == commit


def test_what_a_later_record_leaves_out_stays(importing: Importing, tmp_path: Path) -> None:
    first = run_record(host="node-1", job_type="train", name="try-2", group="grid")
    later = message((17, message((4, message(*items({"depth": 4}))))))
    written_run(tmp_path, first, later, exit_record())
    maps = ("--map", "label.host=host", "--map", "label.job_type=job_type")

    (row,) = importing.dry("wandb", tmp_path, *maps)

    assert row["external_id"] == "wandb:Res Net/r1"
    assert row["param.depth"] == "4"
    labels = ("host", "job_type", "run_name", "group", "git_sha")
    assert [row[f"label.{name}"] for name in labels] == [
        *("node-1", "train", "try-2", "grid", "1f2e3d")
    ]


def test_last_of_two_values_of_a_number_counts(importing: Importing, tmp_path: Path) -> None:
    written_run(tmp_path, run_record(), message((18, message((1, 1), (1, 0), (2, 9), (2, 30)))))

    (row,) = importing.dry("wandb", tmp_path)

    assert (row["status"], row["duration_seconds"]) == ("succeeded", "30.0")


def test_config_is_that_of_the_end(importing: Importing, tmp_path: Path) -> None:
    written_run(
        tmp_path,
        run_record(
            config={
                "depth": 2,
                "width": 8,
                "model": {"kind": "cnn"},
                "modelled": 1,
                "head": {"width": 2},
            }
        ),
        message((5, message(*items({"depth": 4}), *items({"width": 0, "model": 0}, number=2)))),
        message((5, message(*items({"head": "linear"})))),
        exit_record(),
    )

    (row,) = importing.dry("wandb", tmp_path)

    found = {name: cell for name, cell in row.items() if name.startswith("param.")}
    assert found == {"param.depth": "4", "param.head": "linear", "param.modelled": "1"}


def test_requested_members_must_exist(importing: Importing, tmp_path: Path) -> None:
    written_run(tmp_path, run_record(config=_CONFIG), exit_record())

    answer = importing("wandb", tmp_path, "--params", "optimizer.lrr", "--dry-run")
    (few,) = importing.dry("wandb", tmp_path, "--params", "optimizer.lr")

    assert "the member of the config 'optimizer.lrr', which no run has." in answer.err
    assert "Did you mean 'optimizer.lr'?" in answer.err
    assert [name for name in few if name.startswith("param.")] == ["param.optimizer.lr"]


def test_what_is_not_of_weights_and_biases_is_refused(importing: Importing, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("something else")

    folder = importing("wandb", tmp_path, "--dry-run")
    file = importing("wandb", tmp_path / "other.txt", "--dry-run")
    missing = importing("wandb", tmp_path / "missing", "--dry-run")

    assert "There are no runs of Weights & Biases in it." in folder.err
    assert "It is not a log of Weights & Biases." in file.err
    assert "It cannot be read: No such file or directory." in missing.err
    assert [answer.exit_code for answer in (folder, file, missing)] == [1, 1, 1]


_RECORDS = st.one_of(
    st.binary(max_size=40),
    st.builds(
        lambda number, inner: message((number, inner)),
        st.sampled_from([3, 5, 7, 17, 18, 23, 26]),
        st.one_of(
            st.integers(0, 1 << 70),
            st.binary(max_size=40),
            st.builds(
                lambda number, key, text: message((number, message((1, key), (16, text)))),
                st.integers(0, 30),
                st.one_of(st.integers(0, 9), st.text(max_size=5)),
                st.one_of(st.integers(0, 9), st.text(max_size=9), st.just("[" * 100_000)),
            ),
        ),
    ),
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200
)
@given(records=st.lists(_RECORDS, max_size=3))
def test_any_message_is_read_or_refused(
    records: list[bytes], importing: Importing, tmp_path: Path
) -> None:
    file = tmp_path / "run-r1.wandb"
    file.write_bytes(log([run_record(), *records, exit_record()]))

    answer = importing("wandb", file, "--dry-run")

    assert answer.exit_code == (0 if answer.out else 1)
    assert answer.out or "Error: " in answer.err


def test_uploading_twice_creates_nothing_new(
    uploading: Importing, workload: str, tmp_path: Path
) -> None:
    arguments: list[Any] = ["wandb", tmp_path, "--workload", workload]
    written_run(tmp_path, run_record(config=_CONFIG), exit_record())

    first, second = uploading(*arguments), uploading(*arguments)

    assert first.out == f"{workload}: 1 run created, 0 already there\n"
    assert second.out == f"{workload}: 0 runs created, 1 already there\n"
