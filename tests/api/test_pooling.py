"""Which other workloads a regressor learned its priors from, through the door."""

from typing import Any

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from sqlalchemy.orm import Session

from app.domain.fits import FitState
from app.domain.identifiers import ProjectId, Slug
from app.services import fitting
from app.services.wiring import Services
from app.storage.tables import ProjectRow, RegressorRow
from models import FORMAT_VERSION, factory_summaries
from tests.support.queries import recorded_queries
from tests.support.regressors import fit, publish_regressor, store_runs

pytestmark = pytest.mark.lengthy

OTHER_PROJECT = ProjectId("prj_2")


def pooling_of(client: TestClient, workload: str, version: int = 1) -> dict[str, Any]:
    response = client.get(f"/v1/workloads/{workload}/regressors/{version}")
    assert response.status_code == 200
    pooling: dict[str, Any] = response.json()["pooling"]
    return pooling


def support_of(client: TestClient, workload: str) -> dict[str, Any]:
    question = {
        "workload": workload,
        "configuration": {"workers": 4, "gpu_type": "T4"},
        "work": {"dataset_size": 2000},
        "parameters": {"precision": "fp16"},
    }
    response = client.post("/v1/forecasts", json=question)
    assert response.status_code == 200
    support: dict[str, Any] = response.json()["support"]
    return support


def declare(client: TestClient, workload: str, pooling: str) -> None:
    assert client.put(f"/v1/workloads/{workload}", json={"pooling": pooling}).status_code == 200


def test_first_workload_of_an_installation_learns_from_the_factory_prior(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "first")

    pooling = pooling_of(client, "first")

    assert (pooling["mode"], pooling["workloads"]) == ("project", [])
    assert pooling["factory_workloads"] == len(factory_summaries()) > 0
    assert len(pooling["prior_sha256"]) == 64
    support = support_of(client, "first")
    assert (support["pooled_from"], support["factory_prior"]) == ([], True)


def test_other_workloads_of_the_project_contribute_and_never_the_workload_itself(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "b")
    publish_regressor(services, "a")
    store_runs(services.context, "unfitted")
    publish_regressor(services, "mine")
    fit(services, "mine")

    assert pooling_of(client, "mine", 1)["workloads"] == ["a", "b"]
    assert pooling_of(client, "mine", 2)["workloads"] == ["a", "b"]
    assert pooling_of(client, "a")["workloads"] == ["b"]
    assert support_of(client, "mine")["pooled_from"] == ["a", "b"]


def test_no_more_workloads_contribute_than_a_prior_needs(
    client: TestClient, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "_MAX_CONTRIBUTORS", 2)
    for name in ("a", "b", "c"):
        publish_regressor(services, name)
    publish_regressor(services, "mine")

    contributors = pooling_of(client, "mine")["workloads"]

    assert len(contributors) == 2
    assert support_of(client, "mine")["pooled_from"] == contributors


def test_another_projects_workloads_never_contribute(
    client: TestClient, services: Services
) -> None:
    context = services.context
    with Session(context.database.engine) as session, session.begin():
        session.add(ProjectRow(id=OTHER_PROJECT, name="theirs", created_at=context.now()))
    store_runs(context, "theirs", project_id=OTHER_PROJECT)
    assert fit(services, "theirs", project_id=OTHER_PROJECT).state is FitState.SUCCEEDED
    publish_regressor(services, "ours")
    publish_regressor(services, "mine")
    fit(services, "theirs", project_id=OTHER_PROJECT)

    assert pooling_of(client, "mine")["workloads"] == ["ours"]
    assert support_of(client, "mine")["pooled_from"] == ["ours"]
    with context.database.reading() as stores:
        answering = stores.regressors.answering(OTHER_PROJECT, [Slug("theirs")], FORMAT_VERSION)
        workload_id, number, _ = answering[Slug("theirs")]
        version = stores.regressors.get(workload_id, number)
    assert version is not None
    assert version.pooling.workloads == ()


@pytest.mark.parametrize(
    ("pooling", "uses_factory"), [("factory", True), ("off", False)], ids=["factory", "off"]
)
def test_pooling_of_a_workload_keeps_the_others_out(
    client: TestClient, services: Services, pooling: str, *, uses_factory: bool
) -> None:
    publish_regressor(services, "other")
    store_runs(services.context, "mine")
    declare(client, "mine", pooling)
    fit(services, "mine")

    shown = pooling_of(client, "mine")

    assert (shown["mode"], shown["workloads"]) == (pooling, [])
    assert (shown["factory_workloads"] > 0) is uses_factory
    support = support_of(client, "mine")
    assert (support["pooled_from"], support["factory_prior"]) == ([], uses_factory)


def test_deleted_workload_contributes_no_more_and_regressors_stay_as_they_were(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "other")
    publish_regressor(services, "mine")
    before = support_of(client, "mine")

    assert client.delete("/v1/workloads/other").status_code == 204
    fit(services, "mine")

    assert before["pooled_from"] == ["other"]
    assert pooling_of(client, "mine", 1)["workloads"] == ["other"]
    assert pooling_of(client, "mine", 2)["workloads"] == []


def test_published_version_contributes_and_not_the_newest(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "other")
    fit(services, "other")
    publish_regressor(services, "mine")
    first = pooling_of(client, "mine", 1)["prior_sha256"]
    with Session(services.context.database.engine) as session, session.begin():
        newest = session.scalars(sa.select(RegressorRow).where(RegressorRow.version == 2)).one()
        assert newest.summary is not None
        newest.summary = {**newest.summary, "n_configurations": 3}
    fit(services, "mine")
    assert client.post("/v1/workloads/other/regressors/1:publish").status_code == 200
    fit(services, "mine")

    assert pooling_of(client, "mine", 2)["prior_sha256"] != first
    assert pooling_of(client, "mine", 3)["prior_sha256"] == first


@pytest.mark.parametrize("summary", [None, {}, {"format": 0}], ids=["none", "empty", "foreign"])
def test_version_without_a_usable_summary_contributes_nothing(
    client: TestClient, services: Services, summary: dict[str, int] | None
) -> None:
    publish_regressor(services, "old")
    with Session(services.context.database.engine) as session, session.begin():
        session.execute(sa.update(RegressorRow).values(summary=summary))
    publish_regressor(services, "mine")

    assert pooling_of(client, "mine")["workloads"] == []


def test_reading_a_regressor_does_not_read_its_summary(
    client: TestClient, services: Services
) -> None:
    publish_regressor(services, "mine")

    with recorded_queries(services.context.database) as queries:
        client.get("/v1/workloads/mine/regressors/1")

    assert not any("summary" in query for query in queries)
