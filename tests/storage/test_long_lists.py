"""Lists longer than the parameters that a database binds: an upload may name any number."""

from typing import Final

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug, WorkloadId
from app.services.wiring import Services
from app.storage.database import Database
from tests.support.regressors import store_runs

_MANY: Final = 300_000
"""PostgreSQL binds 65,535 parameters, SQLite 250,000 where a distribution allows the most."""


@pytest.fixture
def key(services: Services) -> WorkloadId:
    store_runs(services.context, "w7")
    with services.context.database.reading() as stores:
        return stores.workloads.find_many(DEFAULT_PROJECT, [Slug("w7")])[Slug("w7")].workload_id


def test_workload_is_found_and_locked_among_many_names(database: Database, key: WorkloadId) -> None:
    names = [Slug(f"w{number}") for number in range(_MANY)]

    with database.transaction() as stores:
        stores.workloads.lock(DEFAULT_PROJECT, *names)
        found = stores.workloads.find_many(DEFAULT_PROJECT, names)

    assert {slug: workload.workload_id for slug, workload in found.items()} == {Slug("w7"): key}


def test_workload_is_found_among_many_keys(database: Database, key: WorkloadId) -> None:
    keys = [WorkloadId(number) for number in range(_MANY)]

    with database.transaction() as stores:
        assert stores.workloads.hold(keys) == {key}
        assert stores.run_counts.by_status(keys).keys() == {key}
        assert stores.runs.count_usable_of(keys).keys() == {key}
        assert not stores.fits.latest(keys, lock=True)
        assert not stores.fits.latest_published(keys)
