"""What runs are compared with is dated by the clock that dates runs, not by a service's own."""

import io
from datetime import timedelta
from decimal import Decimal
from typing import Any

import orjson
import pytest

from app.api.documents.ci import report_document
from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.ci import CiReportRequest
from app.domain.exchange_rates import ExchangeRate
from app.domain.grid_factors import GridFactor
from app.domain.identifiers import Slug
from app.domain.prices import ANY_PRICE
from app.pricing.currencies import RateBook
from app.services.context import ServiceContext
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.prices import make_price, on_t4
from tests.support.regressors import fit, law_seconds, publish_regressor

_OWNER = Principal(DEFAULT_PROJECT, frozenset(Scope))
_FITTED = Slug("fitted")


def _with_own_clock(services: Services, shared: FakeClock, ahead_s: float) -> Services:
    context, ahead = services.context, timedelta(seconds=ahead_s)
    return Services(
        ServiceContext(
            context.database,
            context.settings,
            now=lambda: shared() + ahead,
            shared_now=lambda _: shared(),
        )
    )


def _runs(factors: dict[int, float]) -> list[dict[str, Any]]:
    return [
        {
            "workload": _FITTED,
            "duration_seconds": factor * law_seconds(workers, 2000.0),
            "configuration": {"gpu_type": "T4", "workers": workers},
            "work": {"dataset_size": 2000.0},
            "parameters": {"precision": "fp16"},
        }
        for workers, factor in factors.items()
    ]


def _report(services: Services, factors: dict[int, float]) -> dict[str, Any]:
    request = CiReportRequest(documents=_runs(factors), workload=_FITTED)
    return dict(services.ci.report(DEFAULT_PROJECT, request, report_document))


def test_acknowledged_change_is_normal_though_the_services_clock_is_behind(
    services: Services, clock: FakeClock
) -> None:
    behind = _with_own_clock(services, clock, -120.0)
    publish_regressor(services)
    clock.advance(seconds=600)
    slower = _report(behind, {2: 1.0, 4: 2.3})
    clock.advance(seconds=30)
    behind.ci.acknowledge(_OWNER, slower["report_id"], author="ada", reason="more layers")
    clock.advance(seconds=600)

    again = _report(behind, {2: 1.0, 4: 2.3})

    assert (slower["verdict"], again["verdict"]) == ("fail", "pass")


@pytest.mark.parametrize("ahead_s", [-600.0, 600.0])
def test_version_that_is_published_again_judges_the_runs_that_follow(
    services: Services, clock: FakeClock, ahead_s: float
) -> None:
    apart = _with_own_clock(services, clock, ahead_s)
    publish_regressor(services)
    for factor in (1.0, 30.0):
        clock.advance(seconds=60)
        body = orjson.dumps(_runs({2: factor, 4: factor}) * 20)
        services.uploads.upload(DEFAULT_PROJECT, io.BytesIO(body), UploadFormat.JSON)
    clock.advance(seconds=60)
    fit(services, _FITTED)
    clock.advance(seconds=60)
    standing = services.accuracy.accuracy(DEFAULT_PROJECT, _FITTED, timedelta(days=1))
    apart.regressors.publish(_OWNER, _FITTED, 1)
    clock.advance(seconds=60)
    body = orjson.dumps(_runs({2: 1.0, 4: 1.0}))
    services.uploads.upload(DEFAULT_PROJECT, io.BytesIO(body), UploadFormat.JSON)

    since = services.accuracy.accuracy(DEFAULT_PROJECT, _FITTED, timedelta(seconds=30))
    all_runs = services.accuracy.accuracy(DEFAULT_PROJECT, _FITTED, timedelta(days=1))

    assert standing.overall is not None
    assert since.overall is not None
    assert all_runs.overall is not None
    assert since.overall.mape < 0.1
    total = standing.overall.mape * standing.overall.runs + since.overall.mape * 2
    assert all_runs.overall.mape == pytest.approx(total / all_runs.overall.runs)


@pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
def test_of_facts_of_one_date_the_last_stored_counts_whatever_the_services_clocks_say(
    services: Services, clock: FakeClock, ahead_s: float
) -> None:
    apart = _with_own_clock(services, clock, ahead_s)
    date = clock() - timedelta(days=1)
    for number, service in enumerate([services, apart, services, apart], 1):
        service.prices.add(_OWNER, [make_price(price_per_hour=Decimal(number), valid_from=date)])
        rate = ExchangeRate("EUR", "USD", Decimal(number), date, "a bank")
        service.exchange_rates.add(_OWNER, [rate])
        service.grid_factors.add(_OWNER, [GridFactor(Decimal(number), date, "a grid")])
        book = service.prices.book(DEFAULT_PROJECT)
        offer = book.resolve(on_t4(), ANY_PRICE)
        conversion = RateBook(book.facts.rates).conversion("EUR", "USD", book.now)
        factor = book.grid.factor(None, None, book.now)

        assert offer is not None
        assert conversion is not None
        assert factor is not None
        found = offer.price.price_per_hour, conversion.rate, factor.kg_co2e_per_kwh
        assert found == (Decimal(number),) * 3
