"""Runs come as one JSON object, an array, or one JSON object a line."""

import gzip
import json

import orjson
import pytest
from fastapi.testclient import TestClient

from tests.support.engines import before_any_row
from tests.support.uploads import faults, list_runs, make_json_run, post, post_json

FULL_RUN = {
    "workload": "ResNet50",
    "external_id": "ci-8841/3",
    "status": "succeeded",
    "duration_seconds": 5123.7,
    "progress": 1.0,
    "configuration": {
        "gpu_type": "V100-16GB",
        "instance_type": "p3.16xlarge",
        "provider": "aws",
        "region": "us-east-1",
        "purchase": "on_demand",
        "nodes": 1,
        "workers": 8,
    },
    "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
    "parameters": {"precision": "fp16", "inner_modules": 4},
    "phases": {"setup_seconds": 41.0, "communication_seconds": 600.1},
    "resources": {
        "peak_gpu_memory_bytes": 13421772800,
        "gpu_utilization": 0.93,
        "energy_joules": None,
    },
    "cost": {"amount": "34.83", "currency": "USD"},
    "started_at": "2026-11-01T10:00:00Z",
    "labels": {"git_sha": "1f2e3d"},
    "forecast_id": "fc_9x2",
}


def test_one_object_is_stored_and_shown_as_it_was_sent(client: TestClient) -> None:
    answer = post_json(client, FULL_RUN)

    assert answer.status_code == 201
    [uploaded] = answer.json()["runs"]
    assert answer.headers["location"] == f"/v1/runs/{uploaded['run_id']}"
    run = client.get(f"/v1/runs/{uploaded['run_id']}").json()
    assert run["workload"] == "resnet50"
    sent = {**FULL_RUN, "workload": "resnet50"}
    sent["resources"] = {"peak_gpu_memory_bytes": 13421772800, "gpu_utilization": 0.93}
    assert {name: run[name] for name in sent} == sent
    assert run["excluded"] is False
    assert run["created_at"] == "2026-11-01T12:00:00Z"


def test_answer_counts_and_names_the_runs(client: TestClient) -> None:
    answer = post_json(client, [make_json_run(external_id="a"), make_json_run()])

    body = answer.json()
    assert (body["created"], body["duplicates"], body["dry_run"]) == (2, 0, False)
    assert [run["external_id"] for run in body["runs"]] == ["a", None]
    assert {run["workload"] for run in body["runs"]} == {"resnet50"}
    assert {run["assessment"]["verdict"] for run in body["runs"]} == {"unknown"}
    assert body["runs"][0]["run_id"] < body["runs"][1]["run_id"]


def test_whole_numbers_are_shown_without_a_fraction(client: TestClient) -> None:
    [uploaded] = post_json(client, FULL_RUN).json()["runs"]

    text = client.get(f"/v1/runs/{uploaded['run_id']}").text
    workload = client.get("/v1/workloads/resnet50").text

    assert '"dataset_size":1281167,' in text
    assert '"setup_seconds":41.0' not in text
    assert '"inner_modules":4' in text
    assert '"duration_seconds":5123.7,' in text
    assert '"min":8,"max":8,' in workload


def test_absent_members_have_the_stated_defaults(client: TestClient) -> None:
    post_json(client, {"workload": "grep", "duration_seconds": 7})

    [run] = list_runs(client, "grep")
    assert run["status"] == "succeeded"
    assert run["configuration"]["workers"] == 1
    assert run["configuration"]["gpu_type"] is None
    assert run["cost"] is None
    assert run["parameters"] == {}


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "application/jsonl"])
def test_lines_may_be_nested_or_flat(client: TestClient, media_type: str) -> None:
    nested = orjson.dumps(make_json_run(parameters={"precision": "fp16"}))
    flat = orjson.dumps(
        {
            "workload": "resnet50",
            "run_id": 17,
            "duration_seconds": 60,
            "gpu_type": "T4",
            "workers": 2,
            "param.precision": "fp32",
            "label.team": "vision",
            "phase.setup_seconds": 3,
            "cost_usd": 1.5,
            "framework": "pytorch",
        }
    )

    answer = post(client, b"\xef\xbb\xbf" + nested + b"\n\n" + flat, media_type)

    assert answer.json()["created"] == 2
    second, first = list_runs(client)
    assert first["parameters"] == {"precision": "fp16"}
    assert second["parameters"] == {"precision": "fp32", "framework": "pytorch"}
    assert second["external_id"] == "17"
    assert second["labels"] == {"team": "vision"}
    assert second["phases"] == {"setup_seconds": 3}
    assert second["cost"] == {"amount": "1.50", "currency": "USD"}


def test_large_arrays_are_read_across_blocks(client: TestClient) -> None:
    runs = [make_json_run(external_id=f"id-{i}", labels={"pad": "x" * 300}) for i in range(3000)]

    answer = post_json(client, runs)

    assert answer.status_code == 201
    assert answer.json()["created"] == 3000
    assert answer.json()["runs"] is None


def test_compressed_bodies_are_read(client: TestClient) -> None:
    body = gzip.compress(orjson.dumps([make_json_run()]))

    answer = client.post(
        "/v1/runs",
        content=body,
        headers={"Content-Type": "application/json", "Content-Encoding": "gzip"},
    )

    assert answer.status_code == 201


def test_duration_may_come_from_two_instants(client: TestClient) -> None:
    run = {
        "workload": "grep",
        "started_at": "2026-11-01T10:00:00+01:00",
        "ended_at": "2026-11-01T09:02:00.5Z",
    }

    post_json(client, run)

    [stored] = list_runs(client, "grep")
    assert stored["duration_seconds"] == 120.5
    assert stored["started_at"] == "2026-11-01T09:00:00Z"


def test_flags_are_categories(client: TestClient) -> None:
    post_json(client, make_json_run(parameters={"xla": True}))

    [run] = list_runs(client)
    assert run["parameters"] == {"xla": "true"}


def test_alias_of_a_gpu_is_stored_under_its_canonical_name(client: TestClient) -> None:
    runs = [
        make_json_run(configuration={"gpu_type": name})
        for name in ("NVIDIA A100-SXM4-80GB", "V100", "our own board")
    ]

    post_json(client, runs)

    names = [run["configuration"]["gpu_type"] for run in list_runs(client)]
    assert names == ["our own board", "V100", "A100-80GB"]


@pytest.mark.parametrize(
    ("changes", "field", "hint"),
    [
        ({"duration_seconds": "60"}, "duration_seconds", "without quotes"),
        ({"duration_seconds": -1}, "duration_seconds", "seconds"),
        ({"duration_seconds": 0}, "duration_seconds", "seconds"),
        ({"duration_seconds": 1e12}, "duration_seconds", "not ms"),
        ({"duration_seconds": None}, "duration_seconds", "started_at"),
        ({"duration_seconds": True}, "duration_seconds", "value"),
        ({"duration_seconds": 10**400}, "duration_seconds", "seconds"),
        ({"workload": "no spaces please"}, "workload", "letters"),
        ({"workload": None}, "workload", "Name"),
        ({"workload": 5}, "workload", "letters"),
        ({"status": "suceeded"}, "status", "'succeeded'"),
        ({"progress": 1.5}, "progress", "0.4"),
        ({"external_id": "x" * 201}, "external_id", "Shorten"),
        ({"external_id": "a\x00b"}, "external_id", "Remove"),
        ({"external_id": [1]}, "external_id", "one plain value"),
        ({"configuration": {"workers": 2.5}}, "workers", "whole number"),
        ({"configuration": {"nodes": 0}}, "nodes", "whole number"),
        ({"configuration": {"purchase": "ondemand"}}, "purchase", "'on_demand'"),
        ({"configuration": {"gpu_type": 5}}, "gpu_type", "text"),
        ({"configuration": 7}, "configuration", "{"),
        ({"work": {"dataset_size": 0}}, "dataset_size", "positive"),
        ({"parameters": {"depth": {"a": 1}}}, "param.depth", "one plain value"),
        ({"parameters": {"depth": 10**400}}, "param.depth", "finite"),
        ({"parameters": {"depth": -1e300}}, "param.depth", "from -1e+90 to 1e+90"),
        ({"parameters": {"name": "a\x07"}}, "param.name", "Remove"),
        ({"phases": {"setup_seconds": -3}}, "phase.setup_seconds", "seconds"),
        ({"resources": {"gpu_utilization": 93}}, "resource.gpu_utilization", "0.93"),
        ({"resources": {"energy_joules": -1}}, "resource.energy_joules", "unit"),
        ({"cost": {"amount": "34.83"}}, "cost_amount", "currency"),
        ({"cost": {"amount": "-1", "currency": "USD"}}, "cost_amount", "34.83"),
        ({"cost": {"amount": "1e14", "currency": "USD"}}, "cost_amount", "34.83"),
        ({"cost": {"amount": "$5", "currency": "USD"}}, "cost_amount", "34.83"),
        ({"cost": {"amount": "5", "currency": "dollars"}}, "cost_currency", "ISO 4217"),
        ({"cost_usd": 5, "cost": {"amount": "5", "currency": "EUR"}}, "cost_amount", "cost_usd"),
        ({"started_at": "2026-11-01T10:00:00"}, "started_at", "offset"),
        ({"started_at": "2026-13-01T10:00:00Z"}, "started_at", "RFC 3339"),
        ({"started_at": "0001-01-01T00:00:00+09:00"}, "started_at", "RFC 3339"),
        ({"started_at": "2026-11-01T10:00:00+25:00"}, "started_at", "RFC 3339"),
        ({"labels": {"attempt": 3}}, "label.attempt", "quotes"),
        ({"gpu_type": "T4"}, "gpu_type", "once"),
    ],
)
def test_bad_values_are_named_with_a_remedy(
    client: TestClient, changes: dict[str, object], field: str, hint: str
) -> None:
    answer = post(
        client,
        json.dumps([make_json_run(), make_json_run(**changes)]).encode(),
        "application/json",
    )

    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid_rows"
    [fault] = faults(answer)
    assert (fault["row"], fault["field"]) == (2, field)
    assert hint in fault["remedy"]
    assert "datetime" not in fault["message"]
    assert client.get("/v1/workloads/resnet50").status_code == 404


def test_instants_must_agree_with_each_other_and_the_duration(client: TestClient) -> None:
    times = {"started_at": "2026-11-01T10:00:00Z", "ended_at": "2026-11-01T10:01:00Z"}
    swapped = {"started_at": times["ended_at"], "ended_at": times["started_at"]}
    rows = [
        make_json_run(**times, duration_seconds=60_000),
        make_json_run(**swapped),
        make_json_run(**times, duration_seconds=55),
        make_json_run(**{**times, "ended_at": times["started_at"], "duration_seconds": None}),
    ]

    answer = post_json(client, rows)

    named = [(fault["row"], fault["field"]) for fault in faults(answer)]
    assert named == [(1, "duration_seconds"), (2, "ended_at"), (4, "duration_seconds")]


@pytest.mark.parametrize(
    ("run", "field", "hint"),
    [
        (make_json_run(batchsize=8), "batchsize", "'batch_size'"),
        (make_json_run(configuration={"worker": 8}), "configuration.worker", "workers'"),
        (make_json_run(param=8), "param", "param.NAME"),
        ({"runs": [make_json_run()]}, "runs", "Send the list of runs itself"),
        (make_json_run(parameters={"workers": 8}), "param.workers", "'workers' itself"),
        (make_json_run(phases={"setup": 8}), "phase.setup", "phase.setup_seconds"),
        (make_json_run(resources={"gpu_utilisation": 0.9}), "resource.gpu_utilisation", "lization"),
        (make_json_run(**{"\ud800": 1}), "\\ud800", "param.NAME"),
        (make_json_run(parameters={"a\u200db": 1}), "param.a\u200db", "Remove U+200D"),
        (make_json_run(parameters={"": 1}), "param.", "behind it: param.NAME"),
        (make_json_run(labels={"n" * 101: "x"}), f"label.{'n' * 101}", "may have 100"),
        (make_json_run(labels={" n": "x"}), "label. n", "Remove the white space"),
    ],
)
@before_any_row
def test_unknown_fields_are_refused_with_the_nearest(
    client: TestClient, run: dict[str, object], field: str, hint: str
) -> None:
    answer = post(client, json.dumps(run).encode(), "application/json")

    assert answer.status_code == 422
    assert answer.json()["code"] == "unknown_field"
    [fault] = faults(answer)
    assert (fault["row"], fault["field"]) == (1, field)
    assert hint in fault["remedy"]


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"", "The body is empty."),
        (b"   ", "The body is empty."),
        (b"[]", "no runs"),
        (b" [ ] ", "no runs"),
        (b"[{}", "',' or ']'"),
        (b'[{"workload": }]', "at line 1, column 15 (character 14): Expecting value"),
        (b'{"workload": "x",\n "duration_seconds": 1 "nodes": 1}', "at line 2, column 24"),
        (b'[{"a": 1},\r\n {"a": 1},\r\n {"a": 1 2}]', "at line 3, column 10 (character 33)"),
        (b'[{"a": "\xc3\xa9"}, {"a" 1}]', "at line 1, column 19 (character 18)"),
        (b'{"workload": "a"} {"workload": "b"}', "at line 1, column 19 (character 18)"),
        (b'{"workload": "a"} {"workload": "b"}', "x-ndjson"),
        (b'[{"a": 1}] x', "follows the end"),
        (b'[{"a": 1} {"b": 2}]', "at line 1, column 11 (character 10): ',' or ']'"),
        (b'{"duration_seconds": NaN}', "NaN"),
        (b"\xff\xfe[]", "UTF-8"),
        (b"[" * 100_000, "(character 1)"),
        (b'["' + b"x" * 1_200_000 + b'"', "larger than one MiB"),
        (b'[{"a": 1 2},' + b'\n{"a": 1},' * 120_000 + b"{}]", "(character 9)"),
        (b"[" + b'{"a": 1},\n' * 8_000 + b'{"a": 1 2}]', "at line 8001, column 9 "),
    ],
)
@before_any_row
def test_malformed_documents_are_refused_as_a_whole(
    client: TestClient, body: bytes, hint: str
) -> None:
    answer = post(client, body, "application/json")

    assert answer.status_code == 422, answer.text
    assert answer.json()["code"] == "invalid_request"
    assert hint in answer.json()["detail"]
    assert "field" not in answer.json()["remedy"]


def test_malformed_lines_are_named(client: TestClient) -> None:
    good = orjson.dumps(make_json_run())

    answer = post(client, good + b"\n  {oops\n3\n" + good, "application/x-ndjson")

    assert answer.json()["code"] == "invalid_rows"
    assert [fault["row"] for fault in faults(answer)] == [2, 3]
    assert "at column 4." in faults(answer)[0]["message"]


@pytest.mark.parametrize(
    ("line", "message", "remedy"),
    [
        ('{"workload": "w", "duration_seconds": NaN}', "NaN is not a JSON value", "Send null"),
        ('{"workload": "w", "duration_seconds": -Infinity}', "Infinity is not", "Send null"),
        ('{"workload": "w", "duration_seconds": 1},', "at column 41", "without commas"),
        ("[", "at column 2", "is application/json"),
        ('{"workload": "w",', "at column", "is application/json"),
        ('{"workload": "w"} x', "at column 19", "Send runs as JSON objects"),
        ('{"workload": } {}', "at column 14", "Send runs as JSON objects"),
        ('{"workload": "\xfc"}', "it is not UTF-8", "as UTF-8"),
    ],
)
@before_any_row
def test_malformed_lines_are_told_what_they_are(
    client: TestClient, line: str, message: str, remedy: str
) -> None:
    (fault,) = faults(post(client, line.encode("latin-1"), "application/x-ndjson"))

    assert message in fault["message"]
    assert remedy in fault["remedy"]


def test_endless_lines_are_refused(client: TestClient) -> None:
    answer = post(client, b"x" * 1_100_000, "application/x-ndjson")

    assert answer.status_code == 422
    assert "longer than one MiB" in answer.json()["detail"]
    assert "--data-binary" in answer.json()["detail"]


def test_runs_may_not_bring_endlessly_many_names(client: TestClient) -> None:
    runs = [make_json_run(parameters={f"p{i}": 1}) for i in range(400)]

    answer = post_json(client, runs)

    assert answer.status_code == 422
    assert "different fields" in answer.json()["detail"]


@pytest.mark.parametrize(
    "media_type", ["text/plain", "", "application/json; charset=utf-16", "multipart/form-data"]
)
@before_any_row
def test_other_media_types_are_refused(client: TestClient, media_type: str) -> None:
    answer = post(client, b"{}", media_type)

    assert answer.status_code == 415
    assert "text/csv" in answer.json()["detail"]


def test_utf8_may_be_said_to_be_utf8(client: TestClient) -> None:
    body = orjson.dumps(make_json_run())

    answer = post(client, body, 'application/json; charset="UTF-8"')

    assert answer.status_code == 201


def test_runs_with_unknown_fields_are_left_out_when_bad_ones_are_skipped(
    client: TestClient,
) -> None:
    answer = post_json(client, [make_json_run(batchsize=8), make_json_run(), 5], on_invalid="skip")

    body = answer.json()
    assert (body["created"], body["invalid_count"]) == (1, 2)
    assert [fault["row"] for fault in body["invalid"]] == [1, 3]
