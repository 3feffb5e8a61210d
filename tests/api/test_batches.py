"""Batches: order, defaults, problems beside forecasts, trimmed answers."""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Any

import orjson
import pytest
from fastapi.testclient import TestClient
from starlette.types import Message

from app.api.batches.responses import PartsResponse
from app.services.wiring import Services
from tests.support.engines import before_any_row
from tests.support.regressors import fit, publish_regressor, store_runs

DEFAULTS = {"workload": "fitted", "work": {"dataset_size": 1000}, "parameters": {}}


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    publish_regressor(services, workload="other")
    return services


def batch(client: TestClient, requests: list[Any], **changes: Any) -> dict[str, Any]:
    answer = client.post(
        "/v1/forecasts:batch", json={"defaults": DEFAULTS, "requests": requests, **changes}
    )
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_answers_come_in_order_and_agree_with_single_ones(
    client: TestClient, published: Services
) -> None:
    requests = [
        {"ref": workers, "workload": workload, "configuration": {"workers": workers}}
        for workers in (8, 1, 4)
        for workload in ("other", "fitted")
    ]

    answers = batch(client, requests)

    assert answers["failed"] == 0
    assert [entry["ref"] for entry in answers["forecasts"]] == [8, 8, 1, 1, 4, 4]
    asked = {name: value for name, value in requests[3].items() if name != "ref"}
    single = client.post("/v1/forecasts", json={**DEFAULTS, **asked, "record": False})
    assert answers["forecasts"][3]["forecast"] == single.json()


def test_a_large_batch_is_answered_like_each_of_its_entries_alone(
    client: TestClient, published: Services
) -> None:
    # So much text of one form is read column by column.
    refs: list[Any] = ["a ü", 1.5, None, True, *range(700)]
    entries = [
        {
            "configuration": {"workers": 1 + row % 8, "gpu_type": ("T4", "V100-16GB")[row % 2]},
            "work": {"dataset_size": 1000 + row},
            "confidence": 0.8,
        }
        for row in range(len(refs))
    ]
    requests = [{"ref": ref, **entry} for ref, entry in zip(refs, entries, strict=True)]

    fields = ["work", "duration_seconds", "cost"]
    answers = batch(client, requests, fields=fields)["forecasts"]

    assert len(orjson.dumps(requests)) > 2**16
    assert [entry["ref"] for entry in answers] == refs
    for row in (0, 1, 2, 3, 350, len(refs) - 1):
        asked = {**DEFAULTS, **entries[row], "record": False}
        alone = client.post("/v1/forecasts", json=asked).json()
        assert answers[row]["forecast"] == {name: alone[name] for name in fields}


def test_types_that_few_runs_have_are_named_in_batches_as_alone(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "fitted")
    rare = {
        "workload": "fitted",
        "configuration": {"gpu_type": "L4", "workers": 2},
        "work": {"dataset_size": 1000},
        "parameters": {"precision": "fp16"},
        "duration_seconds": 99,
    }
    client.post("/v1/runs", json=rare).raise_for_status()
    fit(services, "fitted")
    requests = [
        {"configuration": {"gpu_type": gpu_type, "workers": workers}}
        for gpu_type, workers in (("T4", 2), ("L4", 4), ("V100-16GB", 2), ("L4", 64), ("T4", 1))
    ]

    answers = [
        entry["forecast"]
        for entry in batch(
            client, requests, defaults={**DEFAULTS, "parameters": rare["parameters"]}
        )["forecasts"]
    ]

    named = [{"name": "gpu_type", "value": "L4"}]
    assert [each["support"]["rare_levels"] for each in answers] == [[], named, [], named, []]
    for answer, request in zip(answers, requests, strict=True):
        asked = {**DEFAULTS, **request, "parameters": rare["parameters"], "record": False}
        assert client.post("/v1/forecasts", json=asked).json()["support"] == answer["support"]
    text = client.post(
        "/v1/forecasts",
        json={**DEFAULTS, **requests[1], "parameters": rare["parameters"]},
        headers={"accept": "text/plain"},
    ).text
    assert "Basis: transferred (few or no runs with gpu_type L4: learned from others;" in text


def test_members_of_defaults_are_completed_one_by_one(
    client: TestClient, published: Services
) -> None:
    answers = batch(
        client,
        [{"configuration": {"workers": 2}}],
        defaults={**DEFAULTS, "configuration": {"gpu_type": "T4", "workers": 8}},
    )

    configuration = answers["forecasts"][0]["forecast"]["configuration"]
    assert (configuration["gpu_type"], configuration["workers"]) == ("T4", 2)


DEEP: dict[str, Any] = {
    "pricing": {
        "price_per_hour": "1",
        "extras": {"other_nodes": 1, "other_node_per_hour": "10"},
        "spot": {"interruptions_per_hour": 5, "restart_s": 1},
    },
    "energy": {"kg_co2e_per_kwh": 0.4, "watts_per_worker": 100},
}


@pytest.mark.parametrize(
    "own",
    [
        {"pricing": {"extras": {"other_nodes": 2}}},
        {"pricing": {"purchase": "spot", "spot": {"restart_s": 2}}},
        {"energy": {"watts_per_worker": 300}},
    ],
    ids=["extras", "spot", "energy"],
)
@pytest.mark.parametrize("n_requests", [1, 400])
def test_defaults_are_completed_at_all_depths(
    client: TestClient, published: Services, own: dict[str, Any], n_requests: int
) -> None:
    [group] = own
    joined = {
        name: {**base, **brought} if isinstance(base := DEEP[group].get(name), dict) else brought
        for name, brought in own[group].items()
    }
    whole = {**DEFAULTS, **DEEP, group: {**DEEP[group], **joined}, "record": False}
    expected = client.post("/v1/forecasts", json=whole).json()

    # Many requests that are written alike are read in columns.
    answers = batch(client, [{"ref": 1, **own}] * n_requests, defaults={**DEFAULTS, **DEEP})

    assert answers["failed"] == 0
    assert expected["cost"] is not None
    assert all(entry["forecast"] == expected for entry in answers["forecasts"])


def test_a_document_of_objects_within_objects_is_refused(
    client: TestClient, published: Services
) -> None:
    deep = '{"pricing":' * 1000 + "{}" + "}" * 1000

    answer = client.post(
        "/v1/forecasts:batch", content=f'{{"defaults": {deep}, "requests": [{deep}]}}'
    )

    assert answer.status_code == 200, answer.text
    assert answer.json()["failed"] == 1


def test_bad_entries_are_problems_beside_good_ones(client: TestClient, published: Services) -> None:
    answers = batch(
        client,
        [
            {"ref": "good"},
            {"ref": "gpu", "configuration": {"gpu_type": "A100"}},
            {"ref": "field", "configuration": {"worker": 2}},
            {"ref": "workload", "workload": "nobody"},
            {"ref": {"no": "text"}},
        ],
    )

    assert answers["failed"] == 4
    codes = [entry.get("problem", {}).get("code") for entry in answers["forecasts"]]
    assert codes == [
        None,
        "ambiguous_gpu",
        "unknown_field",
        "unknown_workload",
        "invalid_request",
    ]


@pytest.mark.parametrize("parameters", [None, 1, True])
def test_parameters_that_are_no_object_are_refused(
    client: TestClient, published: Services, parameters: object
) -> None:
    answers = batch(client, [{"parameters": parameters}] * 2)

    codes = [entry["problem"]["code"] for entry in answers["forecasts"]]
    assert codes == ["invalid_request"] * 2


def test_fields_trim_the_answer(client: TestClient, published: Services) -> None:
    answers = batch(client, [{}], fields=["duration_seconds", "cost"])

    assert set(answers["forecasts"][0]["forecast"]) == {"duration_seconds", "cost"}


@pytest.mark.parametrize("name", ["duration", "zzzzzz"])
def test_unknown_field_to_keep_is_refused(client: TestClient, name: str) -> None:
    answer = client.post("/v1/forecasts:batch", json={"requests": [], "fields": [name]})

    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_field")
    assert answer.json()["detail"] == f"1 unknown field: '{name}'."
    assert answer.json()["errors"][0]["pointer"] == "/fields/0"


@pytest.mark.parametrize("n_requests", [0, 2, 4000])
@before_any_row
def test_ref_among_the_defaults_is_refused(
    client: TestClient, published: Services, n_requests: int
) -> None:
    requests = [{"configuration": {"workers": 2}}] * n_requests

    answer = client.post(
        "/v1/forecasts:batch", json={"defaults": {**DEFAULTS, "ref": "a"}, "requests": requests}
    )

    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_field")
    [fault] = answer.json()["errors"]
    assert (fault["pointer"], fault["field"]) == ("/defaults/ref", "ref")
    assert fault["remedy"] == "Give each of the `requests` a ref of its own."


def test_different_confidences_are_kept_apart(client: TestClient, published: Services) -> None:
    answers = batch(
        client,
        [
            {"confidence": 0.5, "deadline_s": 100},
            {"confidence": 0.9, "time_limit_quantile": 0.5},
        ],
    )

    narrow, wide = (entry["forecast"] for entry in answers["forecasts"])
    assert narrow["duration_seconds"]["lower"] > wide["duration_seconds"]["lower"]
    assert wide["time_limit_seconds"] < narrow["time_limit_seconds"]
    assert narrow["probability"]["deadline"] is not None
    assert wide["probability"]["deadline"] is None


def test_too_many_requests_are_refused(client: TestClient) -> None:
    answer = client.post("/v1/forecasts:batch", json={"requests": [{}] * 10_001})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([], ""),
        (1, ""),
        (None, ""),
        ({"requests": {}}, "/requests"),
        ({"requests": [1]}, "/requests/0"),
        ({"requests": [{}, None]}, "/requests/1"),
    ],
)
@before_any_row
def test_what_is_no_list_of_objects_is_refused(
    client: TestClient, body: object, pointer: str
) -> None:
    answer = client.post("/v1/forecasts:batch", content=orjson.dumps(body))

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]


def test_empty_batch_is_answered(client: TestClient) -> None:
    assert batch(client, []) == {"forecasts": [], "failed": 0}


def test_answer_of_several_parts_is_whole_and_replayed_as_it_was(
    client: TestClient, published: Services
) -> None:
    requests = [{"ref": row, "configuration": {"workers": row + 1}} for row in range(600)]
    ask = partial(
        client.post,
        "/v1/forecasts:batch",
        json={"defaults": DEFAULTS, "requests": requests},
        headers={"Idempotency-Key": "large"},
    )

    answer, again = ask(), ask()

    assert int(answer.headers["Content-Length"]) == len(answer.content) > 2**19
    assert [entry["ref"] for entry in answer.json()["forecasts"]] == [*range(600)]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.content == answer.content


def test_others_have_their_turn_before_the_next_part_of_an_answer_is_built() -> None:
    events: list[str] = []

    def parts() -> Iterator[bytes]:
        for part in (b"a", b"b", b"c"):
            events.append(f"built {part.decode()}")
            yield part

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            events.append(f"sent {message['body'].decode()}")
            asyncio.get_running_loop().call_soon(events.append, "others")

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    asyncio.run(PartsResponse(parts(), 3)({"type": "http"}, receive, send))

    assert events[:8] == [
        *("built a", "built b", "sent a", "others"),
        *("built c", "sent b", "others", "sent c"),
    ]
