"""Uploads through the HTTP API, with realistic defaults."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from fastapi.testclient import TestClient
from httpx2 import Response

JsonRun = dict[str, Any]


def make_json_run(**changes: object) -> JsonRun:
    """Return a run in its nested JSON form."""
    run: JsonRun = {
        "workload": "resnet50",
        "duration_seconds": 5123.7,
        "configuration": {"gpu_type": "V100-16GB", "nodes": 1, "workers": 8},
        "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
    }
    return {**run, **changes}


def post_json(client: TestClient, body: object, **query: str) -> Response:
    return post(client, orjson.dumps(body), "application/json", **query)


def post_csv(client: TestClient, *lines: str, **query: str) -> Response:
    return post(client, "\n".join(lines).encode(), "text/csv", **query)


def post(client: TestClient, body: bytes, media_type: str, **query: str) -> Response:
    return client.post("/v1/runs", content=body, headers={"Content-Type": media_type}, params=query)


def list_runs(client: TestClient, workload: str = "resnet50", **query: str) -> list[JsonRun]:
    answer = client.get(f"/v1/workloads/{workload}/runs", params=query)
    assert answer.status_code == 200, answer.text
    runs: list[JsonRun] = answer.json()["runs"]
    return runs


def faults(answer: Response) -> Sequence[Mapping[str, Any]]:
    listed: Sequence[Mapping[str, Any]] = answer.json()["errors"]
    return listed
