"""Which fits are published: those that forecast better, all, or none."""

from dataclasses import replace

from app.domain.fits import PublishMode
from app.services.wiring import Services
from tests.services.test_fitting import (
    SLUG,
    InterruptedComputer,
    fitter_with,
    look,
    published,
    request_fit,
)
from tests.support.clock import FakeClock
from tests.support.regressors import QUICK, fit, store_runs


def test_if_better_keeps_the_published_version_against_a_worse_one(
    services: Services, clock: FakeClock
) -> None:
    store_runs(services.context, SLUG)
    fit(services, SLUG, replace(QUICK, regressors=("scaling_law",)))
    clock.advance(10)

    ended = fit(services, SLUG, replace(QUICK, publish=PublishMode.IF_BETTER))

    assert (ended.regressor_version, ended.published) == (2, False)
    assert ended.step is not None
    assert ended.step.startswith("stored version 2, not published: error ")
    assert ended.step.endswith("of version 1")
    assert published(services) == 1


def test_if_better_publishes_what_forecasts_better(services: Services, clock: FakeClock) -> None:
    store_runs(services.context, SLUG)
    fit(services, SLUG, QUICK)
    clock.advance(10)

    ended = fit(
        services,
        SLUG,
        replace(QUICK, regressors=("scaling_law",), publish=PublishMode.IF_BETTER),
    )

    assert ended.published
    assert published(services) == 2


def test_if_better_publishes_the_first_version(services: Services) -> None:
    store_runs(services.context, SLUG)

    ended = fit(services, SLUG, replace(QUICK, publish=PublishMode.IF_BETTER))

    assert ended.published


def test_if_better_yields_to_a_version_published_meanwhile(
    services: Services, clock: FakeClock
) -> None:
    workload_id = store_runs(services.context, SLUG)
    for _ in range(2):
        clock.advance(10)
        fit(services, SLUG)
    requested = request_fit(services, replace(QUICK, publish=PublishMode.IF_BETTER))

    def roll_back() -> None:
        with services.context.database.transaction() as stores:
            stores.regressors.publish(workload_id, 1, clock())

    fitter_with(services, InterruptedComputer(roll_back)).step()

    ended = look(services, requested)
    assert ended.step == "stored version 3, not published: version 1 was published meanwhile"
    assert published(services) == 1


def test_never_stores_without_publishing(services: Services) -> None:
    store_runs(services.context, SLUG)

    ended = fit(services, SLUG, replace(QUICK, publish=PublishMode.NEVER))

    assert (ended.published, published(services)) == (False, None)
    assert ended.step == "stored version 1, not published: as asked"
