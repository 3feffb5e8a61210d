"""Workloads are declared or created by their first upload, shown, listed and removed."""

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Scope
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.engines import before_any_row
from tests.support.queries import recorded_queries
from tests.support.uploads import faults, make_json_run, post_csv, post_json

DECLARATION = {
    "description": "Image classification\non ImageNet",
    "dataset_unit": "samples",
    "parameters": {"precision": {"type": "category"}, "depth": {"type": "number", "unit": "m"}},
    "currency": "EUR",
    "labels": {"team": "vision"},
    "refit_policy": {"mode": "auto", "min_new_runs": 3, "max_age_s": 86400},
    "pooling": "off",
}


def test_declaration_is_shown_as_it_was_sent(client: TestClient) -> None:
    answer = client.put("/v1/workloads/ResNet50", json=DECLARATION)

    assert answer.status_code == 201
    shown = client.get("/v1/workloads/resnet50").json()
    assert shown == answer.json()
    assert shown["workload"] == "resnet50"
    assert shown["parameters"] == {
        "precision": {"type": "category", "unit": None},
        "depth": {"type": "number", "unit": "m"},
    }
    others = DECLARATION.keys() - {"parameters"}
    assert {name: shown[name] for name in others} == {name: DECLARATION[name] for name in others}
    assert shown["published_version"] is None
    assert shown["regressor"] is None
    assert shown["last_fit"] is None
    assert shown["runs"] == {}
    assert shown["features"] == {}


def test_second_declaration_replaces_the_first(client: TestClient, clock: FakeClock) -> None:
    client.put("/v1/workloads/a", json=DECLARATION)
    clock.advance(60)

    answer = client.put("/v1/workloads/a", json={})

    assert answer.status_code == 200
    shown = answer.json()
    assert shown["description"] == ""
    assert shown["dataset_unit"] is None
    assert shown["parameters"] == {}
    assert shown["refit_policy"] == {"mode": "manual", "min_new_runs": 1, "max_age_s": None}
    assert shown["pooling"] == "project"
    assert shown["created_at"] == "2026-11-01T12:00:00Z"
    assert shown["updated_at"] == "2026-11-01T12:01:00Z"


def test_first_upload_creates_the_workload(client: TestClient) -> None:
    post_json(client, make_json_run(parameters={"precision": "fp16", "depth": 50}))

    shown = client.get("/v1/workloads/resnet50").json()
    assert shown["runs"] == {"succeeded": 1}
    assert shown["parameters"] == {
        "depth": {"type": "number", "unit": None},
        "precision": {"type": "category", "unit": None},
    }


def test_measured_ranges_and_values_are_shown(client: TestClient) -> None:
    post_csv(
        client,
        "workload,duration_seconds,gpu_type,workers,dataset_size,status,param.depth,param.opt",
        "a,5,T4,1,10,,0.5,adam",
        "a,6,K80,8,,,50,sgd",
        "a,6,K80,4,,,,sgd",
        "a,7,H100,64,99,failed,99,lamb",
    )

    shown = client.get("/v1/workloads/a").json()

    assert shown["runs"] == {"succeeded": 3, "failed": 1}
    assert shown["features"] == {
        "workers": {"type": "number", "min": 1, "max": 8, "runs": 3},
        "dataset_size": {"type": "number", "min": 10, "max": 10, "runs": 1},
        "gpu_type": {"type": "category", "values": ["K80", "T4"], "runs": 3},
        "param.depth": {"type": "number", "min": 0.5, "max": 50, "runs": 2},
        "param.opt": {"type": "category", "values": ["adam", "sgd"], "runs": 3},
    }


def test_unit_is_fixed_once_runs_exist(client: TestClient) -> None:
    client.put("/v1/workloads/resnet50", json={"dataset_unit": "samples"})
    client.put("/v1/workloads/resnet50", json={"dataset_unit": "images"})
    post_json(client, make_json_run())

    changed = client.put("/v1/workloads/resnet50", json={"dataset_unit": "GB"})
    same = client.put("/v1/workloads/resnet50", json={"dataset_unit": "images"})
    left_out = client.put("/v1/workloads/resnet50", json={})

    assert changed.status_code == 409
    assert changed.json()["code"] == "unit_change"
    assert "images" in changed.json()["detail"]
    assert same.status_code == 200
    assert left_out.json()["dataset_unit"] == "images"


def test_unit_may_be_named_after_the_first_upload(client: TestClient) -> None:
    post_json(client, make_json_run())

    answer = client.put("/v1/workloads/resnet50", json={"dataset_unit": "images"})

    assert answer.json()["dataset_unit"] == "images"


def test_type_of_a_used_parameter_cannot_change(client: TestClient) -> None:
    post_json(client, make_json_run(parameters={"depth": 50}))

    answer = client.put(
        "/v1/workloads/resnet50", json={"parameters": {"depth": {"type": "category"}}}
    )

    assert answer.status_code == 422
    assert answer.json()["code"] == "schema_drift"
    assert faults(answer)[0]["pointer"] == "/parameters/depth/type"


@pytest.mark.parametrize("name", ["a\u200db", " n", "workers"])
def test_declared_name_that_runs_cannot_send_is_refused(client: TestClient, name: str) -> None:
    answer = client.put("/v1/workloads/a", json={"parameters": {name: {"type": "number"}}})

    [fault] = faults(answer)
    assert fault["message"] == f"{name!r} cannot be the name of a parameter"
    for said in ("printable characters", "no white space around them", "no name of a run's own"):
        assert said in fault["remedy"]


def test_used_parameters_stay_and_unused_ones_are_replaced(client: TestClient) -> None:
    client.put("/v1/workloads/resnet50", json={"parameters": {"unused": {"type": "number"}}})
    post_json(client, make_json_run(parameters={"depth": 50}))

    answer = client.put(
        "/v1/workloads/resnet50",
        json={"parameters": {"depth": {"type": "number", "unit": "layers"}}},
    )

    assert answer.json()["parameters"] == {"depth": {"type": "number", "unit": "layers"}}


def test_declared_types_hold_for_the_first_upload(client: TestClient) -> None:
    client.put("/v1/workloads/a", json={"parameters": {"version": {"type": "category"}}})

    post_csv(client, "workload,duration_seconds,param.version", "a,5,1.10")

    [run] = client.get("/v1/workloads/a/runs").json()["runs"]
    assert run["parameters"] == {"version": "1.10"}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"dataset_units": "samples"}, "unknown_field"),
        ({"refit_policy": {"min_runs": 3}}, "unknown_field"),
        ({"refit_policy": {"min_new_runs": 0}}, "invalid_request"),
        ({"pooling": "all"}, "invalid_request"),
        ({"currency": "euro"}, "invalid_request"),
        ({"description": "\u0000"}, "invalid_request"),
        ({"parameters": {"workers": {"type": "number"}}}, "invalid_request"),
        ({"parameters": {"x": {"type": "integer"}}}, "invalid_request"),
    ],
)
@before_any_row
def test_wrong_declarations_are_refused(
    client: TestClient, body: dict[str, object], code: str
) -> None:
    answer = client.put("/v1/workloads/a", json=body)

    assert answer.status_code == 422
    assert answer.json()["code"] == code
    assert faults(answer)[0]["remedy"]


@pytest.mark.parametrize("slug", ["no%20spaces", "-dash", "a" * 101])
@before_any_row
def test_ids_of_workloads_are_slugs(client: TestClient, slug: str) -> None:
    answer = client.put(f"/v1/workloads/{slug}", json={})

    assert answer.json()["code"] == "invalid_request"


def test_lists_are_newest_first_in_pages(client: TestClient) -> None:
    for name in ("a", "b", "c"):
        client.put(f"/v1/workloads/{name}", json={})
    post_csv(client, "workload,duration_seconds", "b,5", "b,6")

    first = client.get("/v1/workloads?page_size=2").json()
    second = client.get("/v1/workloads", params={"page_token": first["next_page_token"]}).json()

    assert [found["workload"] for found in first["workloads"]] == ["c", "b"]
    assert first["workloads"][1]["runs"] == {"succeeded": 2}
    assert [found["workload"] for found in second["workloads"]] == ["a"]
    assert second["next_page_token"] is None


@pytest.mark.parametrize("token", ["x", "-1", "9" * 30])
@before_any_row
def test_wrong_page_tokens_are_refused(client: TestClient, token: str) -> None:
    answer = client.get("/v1/workloads", params={"page_token": token})

    assert answer.json()["code"] == "invalid_request"
    assert faults(answer)[0]["field"] == "page_token"


def test_removal_takes_everything_along_and_is_audited(
    client: TestClient, services: Services
) -> None:
    [run] = post_json(client, make_json_run(external_id="a")).json()["runs"]
    client.post("/v1/workloads/resnet50/fits")

    answer = client.delete("/v1/workloads/resnet50")

    assert answer.status_code == 204
    assert client.get("/v1/workloads/resnet50").json()["code"] == "unknown_workload"
    assert client.get(f"/v1/runs/{run['run_id']}").status_code == 404
    with services.context.database.reading() as stores:
        entry, *_before = stores.access.list_audit(DEFAULT_PROJECT)
    assert (entry.action, entry.subject, entry.detail) == (
        "workload.delete",
        "resnet50",
        {"runs": 1},
    )
    assert post_json(client, make_json_run(external_id="a")).json()["created"] == 1


@pytest.mark.parametrize("scope", [Scope.RUNS_WRITE, Scope.FITS_WRITE])
def test_removal_takes_the_scopes_of_all_that_goes(
    client: TestClient, services: Services, scope: Scope
) -> None:
    client.put("/v1/workloads/a", json=DECLARATION)
    _, of_one = services.access.create_key("one", [scope])
    _, of_both = services.access.create_key("both", [Scope.RUNS_WRITE, Scope.FITS_WRITE])

    refused, removed = (
        client.delete("/v1/workloads/a", headers={"Authorization": f"Bearer {token}"})
        for token in (of_one, of_both)
    )

    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert removed.status_code == 204


AUTO = {"mode": "auto", "min_new_runs": 1}


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        (None, {"refit_policy": AUTO}, 403),
        (None, {"refit_policy": {"mode": "manual"}}, 201),
        ({}, {"refit_policy": AUTO}, 403),
        ({"refit_policy": AUTO}, {"refit_policy": {**AUTO, "min_new_runs": 2}}, 403),
        ({"refit_policy": AUTO}, {}, 403),
        ({"refit_policy": AUTO}, {"refit_policy": AUTO, "description": "new"}, 200),
    ],
)
def test_change_of_the_refit_policy_takes_the_scope_of_fits(
    client: TestClient,
    services: Services,
    before: dict[str, object] | None,
    after: dict[str, object],
    status: int,
) -> None:
    if before is not None:
        client.put("/v1/workloads/a", json=before).raise_for_status()
    shown = client.get("/v1/workloads/a").json()
    _, uploading = services.access.create_key("uploading", [Scope.RUNS_WRITE])
    _, fitting = services.access.create_key("fitting", [Scope.RUNS_WRITE, Scope.FITS_WRITE])

    answer, kept, allowed = (
        client.request(method, "/v1/workloads/a", json=body, headers=headers)
        for method, body, headers in (
            ("PUT", after, {"Authorization": f"Bearer {uploading}"}),
            ("GET", None, {}),
            ("PUT", after, {"Authorization": f"Bearer {fitting}"}),
        )
    )

    assert answer.status_code == status
    assert allowed.is_success
    if status == 403:
        assert kept.json().get("refit_policy") == shown.get("refit_policy")
        assert answer.json()["code"] == "forbidden"
        assert "lacks the scope 'fits:write'." in answer.json()["detail"]
        assert "refit_policy" in answer.json()["remedy"]


def test_unknown_workloads_cannot_be_removed(client: TestClient) -> None:
    assert client.delete("/v1/workloads/none").json()["code"] == "unknown_workload"


def test_last_fit_is_shown(client: TestClient) -> None:
    post_json(client, make_json_run())
    fit = client.post("/v1/workloads/resnet50/fits").json()

    shown = client.get("/v1/workloads/resnet50").json()["last_fit"]

    assert shown["fit_id"] == fit["fit_id"]
    assert shown["state"] == "queued"


def test_lists_take_as_many_statements_whatever_their_length(
    client: TestClient, services: Services
) -> None:
    counts = []
    for rows in (1, 30):
        lines = [f"w{rows}-{i},5,1" for i in range(rows)]
        post_csv(client, "workload,duration_seconds,param.x", *lines)
        with recorded_queries(services.context.database) as queries:
            client.get("/v1/workloads")
        counts.append(len(queries))

    assert counts == [3, 3]
