"""What `trainfare doctor` finds is named with its project, and its remedies end the finding."""

from datetime import timedelta

import sqlalchemy as sa

from app.domain.access import Scope
from app.domain.health import Check
from app.domain.identifiers import ProjectId, Slug
from app.services.retention import RetentionService
from app.services.wiring import Services
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.regressors import fit, store_runs

_DAY_S = 86_400.0


def _checks(services: Services) -> dict[str, Check]:
    return {check.name: check for check in services.diagnosis.diagnose()}


def _store_in(services: Services, project: str, slug: str) -> ProjectId:
    key, _ = services.access.create_key("ci", [Scope.ADMIN], project=project)
    store_runs(services.context, slug, project_id=key.project_id)
    return key.project_id


def _damage_the_last_artefact(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(
            sa.text(
                "UPDATE regressor SET artifact_sha256 = 'x'"
                " WHERE workload_id = (SELECT max(workload_id) FROM regressor)"
            )
        )


def test_damaged_artefacts_are_named_with_their_project(
    services: Services, database: Database
) -> None:
    store_runs(services.context, "resnet")
    fit(services, "resnet")
    fit(services, "resnet", project_id=_store_in(services, "vision", "resnet"))
    _damage_the_last_artefact(database)

    assert _checks(services)["artefacts"].detail == "damaged: vision/resnet version 1"


def test_damaged_artefact_is_no_longer_found_once_its_remedy_was_followed(
    services: Services, database: Database, clock: FakeClock
) -> None:
    vision = _store_in(services, "vision", "resnet")
    fit(services, "resnet", project_id=vision)
    _damage_the_last_artefact(database)
    assert "prune" in _checks(services)["artefacts"].remedy
    clock.advance(_DAY_S)

    fit(services, "resnet", project_id=vision)
    clock.advance(_DAY_S)
    RetentionService(services.context).prune_regressors(timedelta(0), project="vision")

    assert _checks(services)["artefacts"].is_ok


def test_wrong_counts_are_named_with_their_project(services: Services, database: Database) -> None:
    vision = _store_in(services, "vision", "resnet")
    store_runs(services.context, "resnet")
    with database.transaction() as stores:
        for workload in stores.workloads.find_many(vision, [Slug("resnet")]).values():
            stores.run_counts.recount(workload.workload_id)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE run_count SET by_status = '{}'")

    assert _checks(services)["counts"].detail == "counted wrongly: vision/resnet"
    assert services.diagnosis.recount().workloads == ["vision/resnet"]
