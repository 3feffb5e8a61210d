"""The database of the scale benchmark holds what the service could have stored itself."""

import pytest
import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug, earliest_identifier, is_identifier
from app.services.wiring import Services
from app.storage.database import Database
from benchmarks.scale.filling import (
    LARGEST,
    ORDINARY,
    RUNS_A_WORKLOAD,
    Size,
    fill,
    is_filled,
    share,
)
from tests.support.regressors import fit

_SIZE = Size(3000)


@pytest.fixture
def filled(database: Database) -> Database:
    if database.is_sqlite:
        pytest.skip("the benchmark is about PostgreSQL")
    assert not is_filled(database.engine)
    assert list(fill(database.engine, _SIZE)) == [_SIZE.runs]
    return database


def test_runs_are_shared_out_over_workloads(filled: Database) -> None:
    query = """
        SELECT slug, count(*) FROM run JOIN workload ON workload_id = workload.id GROUP BY slug
    """
    with filled.engine.connect() as connection:
        counts = {str(slug): int(count) for slug, count in connection.execute(sa.text(query))}

    assert counts == {ORDINARY: RUNS_A_WORKLOAD, "workload-1": 900, "workload-2": 900, LARGEST: 300}
    assert is_filled(filled.engine)


def test_runs_are_named_by_the_instant_that_they_were_stored_at(
    filled: Database, services: Services
) -> None:
    page = services.runs.list_page(DEFAULT_PROJECT, Slug(LARGEST), page_size=300)

    assert len(page.items) == 300
    for run in page.items:
        assert is_identifier("run", run.run_id)
        assert run.run_id >= earliest_identifier("run", run.created_at)


def test_every_workload_answers_by_the_regressor_of_the_first(
    filled: Database, services: Services
) -> None:
    # The version of the history that was filled in is stored by this fit.
    fit(services, ORDINARY)

    share(filled.engine)

    published = services.workloads.list_page(DEFAULT_PROJECT).items
    assert [each.workload.published_version for each in published] == [1] * (_SIZE.workloads + 1)
