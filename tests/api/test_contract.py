"""Requests drawn from the service's own OpenAPI document never meet an undeclared answer."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from app.main import build_app
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.regressors import publish_regressor

pytestmark = pytest.mark.lengthy

_CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def api_schema(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[schemathesis.BaseSchema]:
    folder = tmp_path_factory.mktemp("contract")
    shutil.copy(sqlite_template, folder / "trainfare.db")
    configuration = Settings(data_dir=folder, database_pool_size=8, lease_s=3600.0)
    services = Services(ServiceContext(Database(configuration.url), configuration))
    publish_regressor(services, workload="0")
    with services.context.database.transaction() as stores:
        now = services.context.now()
        stores.leases.fitter_seen("fitter-1", started_at=now, now=now)
    yield schemathesis.openapi.from_asgi("/openapi.json", build_app(configuration, services))
    services.close()


_SLICES = 4
"""The operations are dealt out over as many tests, so that they run side by side."""


@pytest.mark.parametrize("part", range(_SLICES))
def test_every_answer_is_declared_and_none_is_a_server_error(
    api_schema: schemathesis.BaseSchema, part: int, subtests: pytest.Subtests
) -> None:
    results: Iterator[Any] = api_schema.get_all_operations()
    operations = [result.ok() for result in results]

    for operation in operations[part::_SLICES]:
        with subtests.test(operation.label):
            _fuzz(operation)


def _fuzz(operation: Any) -> None:
    @given(case=operation.as_strategy())
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    def call(case: Any) -> None:
        case.call_and_validate(checks=_CHECKS)

    call()
