"""The same external id is a duplicate or a conflict; parameters keep their first type."""

import pytest
from fastapi.testclient import TestClient

from app.domain.quotas import Limit
from app.services.wiring import Services
from tests.support.uploads import faults, list_runs, make_json_run, post_csv, post_json


def test_same_upload_again_creates_nothing_and_says_so(client: TestClient) -> None:
    run = make_json_run(external_id="a", parameters={"x": 1, "y": "b"})
    [first] = post_json(client, run).json()["runs"]

    answer = post_json(client, run)

    body = answer.json()
    assert answer.status_code == 200
    assert (body["created"], body["duplicates"]) == (0, 1)
    assert body["runs"][0]["run_id"] == first["run_id"]
    assert body["runs"][0]["duplicate"] is True


def test_form_of_an_upload_does_not_matter_for_its_content(client: TestClient) -> None:
    post_json(
        client,
        {
            "workload": "a",
            "external_id": "1",
            "duration_seconds": 5,
            "configuration": {"workers": 2},
            "parameters": {"framework": "jax", "depth": 4},
            "cost": {"amount": 1.5, "currency": "usd"},
        },
    )

    answer = post_csv(
        client,
        "run_id,workload,duration_seconds,workers,param.depth,framework,cost_usd,status",
        "1,A,5.0,2,4.0,jax,1.50,succeeded",
    )

    assert (answer.json()["created"], answer.json()["duplicates"]) == (0, 1)


def test_repetitions_without_external_id_are_kept(client: TestClient) -> None:
    answer = post_json(client, [make_json_run(), make_json_run()])

    assert answer.json()["created"] == 2
    assert post_json(client, make_json_run()).json()["created"] == 1


def test_same_external_id_in_another_workload_is_another_run(client: TestClient) -> None:
    runs = [make_json_run(external_id="a", workload=name) for name in ("one", "two")]

    assert post_json(client, runs).json()["created"] == 2


def test_duplicate_is_found_behind_new_rows_of_another_workload(client: TestClient) -> None:
    stored = make_json_run(external_id="a", workload="one")
    post_json(client, stored)

    body = post_json(client, [make_json_run(external_id="b", workload="two"), stored]).json()

    assert (body["created"], body["duplicates"]) == (1, 1)


def test_rows_without_external_id_are_kept_beside_rows_with_one(client: TestClient) -> None:
    runs = [make_json_run(external_id="a"), make_json_run(), make_json_run()]

    assert post_json(client, runs).json()["created"] == 3


def test_repeated_rows_within_an_upload_are_duplicates(client: TestClient) -> None:
    run = make_json_run(external_id="a")

    body = post_json(client, [run, run]).json()

    assert (body["created"], body["duplicates"]) == (1, 1)
    assert body["runs"][0]["run_id"] == body["runs"][1]["run_id"]


def test_other_content_is_a_conflict_that_shows_the_difference(client: TestClient) -> None:
    post_json(client, make_json_run(external_id="a", parameters={"x": 1}))

    answer = post_json(
        client,
        [
            make_json_run(external_id="b"),
            make_json_run(external_id="a", duration_seconds=9, labels={"k": "v"}),
        ],
    )

    assert answer.status_code == 409
    assert answer.json()["code"] == "run_conflict"
    shown = {fault["field"]: fault for fault in faults(answer)}
    assert set(shown) == {"duration_seconds", "label.k", "param.x"}
    assert {fault["row"] for fault in shown.values()} == {2}
    assert shown["duration_seconds"]["value"] == 9
    assert "5123.7" in shown["duration_seconds"]["message"]
    assert "nothing" in shown["param.x"]["message"]
    assert len(list_runs(client)) == 1


def test_conflict_within_an_upload_names_the_later_row(client: TestClient) -> None:
    answer = post_json(
        client,
        [make_json_run(external_id="a"), make_json_run(external_id="a", duration_seconds=9)],
    )

    assert answer.json()["code"] == "run_conflict"
    [fault] = faults(answer)
    assert (fault["row"], fault["field"]) == (2, "external_id")
    assert client.get("/v1/workloads/resnet50").status_code == 404


def test_conflicts_are_left_out_when_bad_rows_are_skipped(client: TestClient) -> None:
    post_json(client, make_json_run(external_id="a"))

    answer = post_json(
        client,
        [
            make_json_run(external_id="a", duration_seconds=9),
            make_json_run(external_id="b", cost={"amount": "1", "currency": "USD"}),
        ],
        on_invalid="skip",
    )

    body = answer.json()
    assert (body["created"], body["duplicates"], body["invalid_count"]) == (1, 0, 1)
    assert [run["external_id"] for run in body["runs"]] == ["b"]


def test_conflicting_money_and_instants_are_shown_as_text(client: TestClient) -> None:
    old = {"cost": {"amount": "1", "currency": "USD"}, "started_at": "2026-11-01T10:00:00Z"}
    new = {"cost": {"amount": "2", "currency": "USD"}, "started_at": "2026-11-01T11:00:00Z"}
    post_json(client, make_json_run(external_id="a", **old))

    answer = post_json(client, make_json_run(external_id="a", **new))

    assert {fault["field"] for fault in faults(answer)} == {"cost_amount", "started_at"}


def test_changed_labels_make_the_changed_run_a_duplicate_too(client: TestClient) -> None:
    [run] = post_json(client, make_json_run(external_id="a")).json()["runs"]
    client.patch(f"/v1/runs/{run['run_id']}", json={"labels": {"k": "v"}})

    answers = [
        post_json(client, make_json_run(external_id="a")),
        post_json(client, make_json_run(external_id="a", labels={"k": "v"})),
    ]

    assert [answer.json()["duplicates"] for answer in answers] == [1, 1]


def test_conflict_of_labels_alone_is_resolved_by_changing_them(client: TestClient) -> None:
    [run] = post_json(client, make_json_run(external_id="a", labels={"name": "old"})).json()["runs"]
    renamed = make_json_run(external_id="a", labels={"name": "new"})

    [fault] = faults(post_json(client, renamed))
    other = faults(post_json(client, {**renamed, "duration_seconds": 9}))
    client.patch(f"/v1/runs/{run['run_id']}", json={"labels": {"name": "new"}})
    repeated = post_json(client, renamed)

    assert fault["field"] == "label.name"
    assert f"PATCH /v1/runs/{run['run_id']}" in fault["remedy"]
    assert {each["field"] for each in other} == {"duration_seconds", "label.name"}
    assert not any("PATCH" in each["remedy"] for each in other)
    assert repeated.json()["duplicates"] == 1


def test_first_use_fixes_a_parameters_type(client: TestClient) -> None:
    post_json(client, make_json_run(parameters={"depth": 50, "precision": "fp16"}))

    answer = post_json(
        client,
        [
            make_json_run(),
            make_json_run(parameters={"depth": "fifty"}),
            make_json_run(parameters={"precision": 16}),
        ],
    )

    assert answer.status_code == 422
    assert answer.json()["code"] == "schema_drift"
    named = [(fault["row"], fault["field"], fault["value"]) for fault in faults(answer)]
    assert named == [(2, "param.depth", "fifty"), (3, "param.precision", 16)]
    assert len(list_runs(client)) == 1


def test_drift_is_left_out_when_bad_rows_are_skipped(client: TestClient) -> None:
    post_json(client, make_json_run(parameters={"depth": 50}))

    answer = post_csv(
        client,
        "workload,duration_seconds,param.depth",
        "resnet50,5,101",
        "resnet50,5,deep",
        on_invalid="skip",
    )

    assert (answer.json()["created"], answer.json()["invalid_count"]) == (1, 1)


def test_nothing_is_left_of_named_runs_that_all_drift(client: TestClient) -> None:
    post_json(client, make_json_run(parameters={"depth": 50}))
    drifting = make_json_run(external_id="late", parameters={"depth": "deep"})

    answer = post_json(client, [drifting], on_invalid="skip")

    assert answer.status_code == 200
    assert (answer.json()["created"], answer.json()["invalid_count"]) == (0, 1)


def test_cells_of_a_category_may_look_like_numbers(client: TestClient) -> None:
    post_csv(client, "workload,duration_seconds,param.version", "a,5,2.1", "a,5,2.1-rc", "b,5,2")
    post_csv(client, "workload,duration_seconds,param.version", "a,5,3.0")

    assert [run["parameters"]["version"] for run in list_runs(client, "a")] == [
        "3.0",
        "2.1-rc",
        "2.1",
    ]
    assert list_runs(client, "b")[0]["parameters"] == {"version": 2}


@pytest.mark.parametrize("values", [(1, "one", 2), ("one", 1, "two")])
def test_first_json_value_of_an_upload_fixes_a_parameters_type(
    client: TestClient, values: tuple[object, ...]
) -> None:
    runs = [make_json_run(parameters={"x": value}) for value in values]

    answer = post_json(client, runs)
    skipped = post_json(client, runs, on_invalid="skip")

    assert answer.json()["code"] == "schema_drift"
    assert [fault["row"] for fault in faults(answer)] == [2]
    assert (skipped.json()["created"], skipped.json()["invalid_count"]) == (2, 1)
    assert [run["parameters"]["x"] for run in list_runs(client)] == [values[2], values[0]]


@pytest.mark.parametrize("left_out", [{"external_id": "a"}, {"parameters": {"x": "b", "y": "c"}}])
def test_row_that_is_left_out_fixes_no_type(
    client: TestClient, left_out: dict[str, object]
) -> None:
    post_json(client, make_json_run(external_id="a", parameters={"x": 1}))
    bad = make_json_run(duration_seconds=9, parameters={"y": "c"}) | left_out
    skipped = post_json(client, [bad, make_json_run()], on_invalid="skip")

    answer = post_json(client, make_json_run(parameters={"y": 2}))

    assert (skipped.json()["created"], skipped.json()["invalid_count"]) == (1, 1)
    assert answer.json()["created"] == 1, answer.text


def test_framework_is_a_category_whatever_it_looks_like(client: TestClient) -> None:
    post_csv(client, "workload,duration_seconds,framework", "a,5,2")

    assert list_runs(client, "a")[0]["parameters"] == {"framework": "2"}
    declared = client.get("/v1/workloads/a").json()["parameters"]
    assert declared == {"framework": {"type": "category", "unit": None}}


def test_deleted_runs_may_come_again_with_other_content(client: TestClient) -> None:
    [run] = post_json(client, make_json_run(external_id="a")).json()["runs"]
    assert client.delete(f"/v1/runs/{run['run_id']}").status_code == 204

    answer = post_json(client, make_json_run(external_id="a", duration_seconds=9))

    assert answer.json()["created"] == 1


def test_dry_run_names_no_run_that_is_not_stored(client: TestClient) -> None:
    stored = post_json(client, make_json_run(external_id="a")).json()["runs"][0]["run_id"]
    rows = [make_json_run(external_id=name) for name in ("b", "b", "a")]

    checked = post_json(client, rows, dry_run="true").json()

    assert (checked["created"], checked["duplicates"]) == (1, 2)
    assert [run["run_id"] for run in checked["runs"]] == [None, None, stored]


def test_new_workload_of_which_all_rows_are_skipped_is_not_made(
    client: TestClient, services: Services
) -> None:
    services.projects.limit("default", {Limit.WORKLOADS: 1})
    # More rows than are judged before they are stored.
    bad = ["odd,1,NA,1", "odd,1,1,NA"] * 501

    answer = post_csv(
        client,
        "workload,duration_seconds,param.a,param.b",
        *bad,
        "even,1,2,3",
        on_invalid="skip",
    )

    assert (answer.json()["created"], answer.json()["invalid_count"]) == (1, len(bad))
    listed = client.get("/v1/workloads").json()["workloads"]
    assert [workload["workload"] for workload in listed] == ["even"]
