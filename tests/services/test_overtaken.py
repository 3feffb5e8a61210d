"""Transactions on PostgreSQL that others overtake between two of their statements."""

import pytest

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.identifiers import Slug
from app.domain.quotas import Limit
from app.services.context import ServiceContext
from app.services.wiring import Services
from app.storage.quotas import QuotaStore
from tests.support.overtaking import after_first
from tests.support.regressors import QUICK, store_runs

_CALLER = Principal(DEFAULT_PROJECT, frozenset(Scope))


@pytest.fixture
def context(services: Services) -> ServiceContext:
    if services.context.database.is_sqlite:
        pytest.skip("SQLite has one writer at a time")
    return services.context


def test_fit_is_queued_while_its_limit_is_lifted(
    services: Services, context: ServiceContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_runs(context, "w")
    services.projects.limit("default", {Limit.FITS_PER_DAY: 1})

    def lift() -> None:
        services.projects.limit("default", {Limit.FITS_PER_DAY: None})

    after_first(monkeypatch, QuotaStore, "get", lift)

    assert services.fits.request_fit(DEFAULT_PROJECT, Slug("w"), QUICK)[1]
