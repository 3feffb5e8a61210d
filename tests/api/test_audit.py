"""The audit log tells who uploaded runs, asked for fits and ended them."""

from datetime import timedelta

from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, AuditEntry, Project
from app.domain.identifiers import ProjectId
from app.services.refitting.refits import RefitService
from app.services.wiring import Services
from tests.support.regressors import store_runs

_RUN = {"workload": "a", "external_id": "1", "duration_seconds": 10, "workers": 1}


def _audited(services: Services) -> list[AuditEntry]:
    with services.context.database.reading() as stores:
        return stores.access.list_audit(DEFAULT_PROJECT)


def test_upload_is_audited_with_what_it_stored(client: TestClient, services: Services) -> None:
    client.post("/v1/runs", json=_RUN).raise_for_status()
    others = [{**_RUN, "workload": slug, "external_id": None} for slug in ("b", "b", "c")]

    client.post("/v1/runs", json=[_RUN, *others]).raise_for_status()

    second, first = _audited(services)
    assert (first.action, first.subject) == ("run.upload", "a")
    assert first.detail == {"runs": 1, "duplicates": 0, "workloads": {"a": 1}}
    assert (second.action, second.subject) == ("run.upload", "2 workloads")
    assert second.detail == {"runs": 3, "duplicates": 1, "workloads": {"b": 2, "c": 1}}


def test_upload_over_very_many_workloads_names_their_number_alone(
    client: TestClient, services: Services
) -> None:
    runs = [{**_RUN, "workload": f"w{index}"} for index in range(101)]

    client.post("/v1/runs", json=runs).raise_for_status()

    [entry] = _audited(services)
    assert (entry.subject, entry.detail) == ("101 workloads", {"runs": 101, "duplicates": 0})


def test_what_stores_nothing_is_not_audited(client: TestClient, services: Services) -> None:
    client.post("/v1/runs", json=_RUN).raise_for_status()

    client.post("/v1/runs", json=_RUN).raise_for_status()
    client.post("/v1/runs?dry_run=true", json={**_RUN, "external_id": "2"}).raise_for_status()
    client.post("/v1/runs", json={**_RUN, "duration_seconds": -1})

    assert len(_audited(services)) == 1


def test_change_that_comes_again_is_not_audited(client: TestClient, services: Services) -> None:
    build = {"branch": "topic", "base_branch": "main", "runs": [_RUN]}
    report = client.post("/v1/ci/reports", json=build).json()
    run = f"/v1/runs/{report['runs'][0]['run_id']}"
    changes = [{"labels": {"k": "v"}}, {"excluded": True, "reason": "noisy"}, {"excluded": False}]

    for _ in range(2):
        client.post(f"/v1/ci/reports/{report['report_id']}:promote").raise_for_status()
    for change in changes:
        for _ in range(2):
            client.patch(run, json=change).raise_for_status()

    actions = [entry.action for entry in reversed(_audited(services))]
    assert actions == ["run.upload", "ci.promote", "run.change", "run.exclude", "run.include"]


def test_fit_is_audited_when_it_is_asked_for_and_when_it_is_ended(
    client: TestClient, services: Services
) -> None:
    store_runs(services.context, "a")
    fit = client.post("/v1/workloads/a/fits").json()["fit_id"]
    client.post("/v1/workloads/a/fits").raise_for_status()

    for _ in range(2):
        client.post(f"/v1/fits/{fit}:cancel").raise_for_status()

    ended, asked = _audited(services)
    assert (asked.action, asked.subject, asked.detail) == ("fit.request", fit, {"workload": "a"})
    assert (ended.action, ended.subject, ended.detail) == ("fit.cancel", fit, {"workload": "a"})


def test_report_of_a_build_is_audited_as_an_upload(client: TestClient, services: Services) -> None:
    client.post("/v1/ci/reports", json={"runs": [_RUN]}).raise_for_status()

    [entry] = _audited(services)
    assert (entry.action, entry.subject) == ("run.upload", "a")


def test_declaration_is_audited_with_what_it_changes(
    client: TestClient, services: Services
) -> None:
    policy = {"mode": "auto", "min_new_runs": 5}
    for body in ({"pooling": "off"}, {"pooling": "off", "refit_policy": policy}):
        client.put("/v1/workloads/a", json=body).raise_for_status()

    client.put("/v1/workloads/a", json={"pooling": "off", "refit_policy": policy})

    changed, created = _audited(services)
    assert (created.action, created.subject) == ("workload.create", "a")
    assert created.detail == {"pooling": "off"}
    assert (changed.action, changed.subject) == ("workload.change", "a")
    assert changed.detail == {"refit_policy": {**policy, "max_age_s": None}}


def test_declaration_that_leaves_out_what_runs_use_is_audited_with_what_it_changes(
    client: TestClient, services: Services
) -> None:
    client.post("/v1/runs", json={**_RUN, "parameters": {"precision": "fp16"}}).raise_for_status()

    for body in ({}, {"description": "a"}):
        client.put("/v1/workloads/a", json=body).raise_for_status()

    [entry] = [each for each in _audited(services) if each.action == "workload.change"]
    assert entry.detail == {"description": "a"}


def test_fit_of_a_refit_policy_is_audited_with_its_reason(
    client: TestClient, services: Services
) -> None:
    policy = {"mode": "auto", "min_new_runs": 1}
    client.put("/v1/workloads/a", json={"refit_policy": policy}).raise_for_status()

    client.post("/v1/runs", json=_RUN).raise_for_status()

    fit, upload, _ = _audited(services)
    assert upload.action == "run.upload"
    assert fit.action == "fit.request"
    assert fit.detail == {"workload": "a", "reason": "refit policy"}


def test_fits_of_an_operator_are_audited_in_each_project(services: Services) -> None:
    vision = ProjectId("vision")
    with services.context.database.transaction() as stores:
        stores.access.add_project(Project(vision, "vision"), services.context.now())
    for project_id, slug in ((DEFAULT_PROJECT, "a"), (vision, "b")):
        store_runs(services.context, slug, project_id=project_id)

    RefitService(services.context).request_all(timedelta())

    with services.context.database.reading() as stores:
        [theirs] = stores.access.list_audit(vision)
    [ours] = _audited(services)
    assert (ours.action, ours.detail) == (
        "fit.request",
        {"workload": "a", "reason": "trainfare refit"},
    )
    assert theirs.detail == {"workload": "b", "reason": "trainfare refit"}
