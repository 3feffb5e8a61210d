"""Releases with different formats of artefacts beside each other, each serving what it reads."""

import pytest

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.errors import InvalidRequestError, RegressorUnavailableError
from app.domain.fits import FitState
from app.domain.identifiers import Slug
from app.services.refitting.formats import FormatRenewal
from app.services.serving import RegressorCache
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.other_formats import EARLIER, LATER, put_format
from tests.support.regressors import fit, make_fitter, publish_regressor, store_runs

pytestmark = pytest.mark.lengthy

FITTED = Slug("fitted")
OPERATOR = Principal(DEFAULT_PROJECT, frozenset(Scope))


def renewal_of(services: Services, at_most: int = 100) -> FormatRenewal:
    return FormatRenewal(services.context, at_most=at_most)


def step_all(services: Services) -> None:
    while make_fitter(services.context).step():
        pass


def test_release_answers_by_the_last_published_version_that_it_reads(services: Services) -> None:
    publish_regressor(services)
    fit(services, "fitted")
    services.regressors.publish(OPERATOR, FITTED, 1)
    services.regressors.publish(OPERATOR, FITTED, 2)
    fit(services, "fitted")
    put_format(services.context.database, "fitted", LATER, 3)

    served = RegressorCache(services.context).get(DEFAULT_PROJECT, FITTED)

    assert served.version == 2
    put_format(services.context.database, "fitted", LATER, 2)
    assert RegressorCache(services.context).get(DEFAULT_PROJECT, FITTED).version == 1


def test_version_of_another_release_is_refused_where_there_is_no_other(services: Services) -> None:
    publish_regressor(services)
    put_format(services.context.database, "fitted", EARLIER)

    with pytest.raises(RegressorUnavailableError, match=f"format {EARLIER}, not"):
        RegressorCache(services.context).get(DEFAULT_PROJECT, FITTED)


def test_version_of_another_release_is_never_published(services: Services) -> None:
    publish_regressor(services)
    fit(services, "fitted")
    put_format(services.context.database, "fitted", EARLIER, 1)

    with pytest.raises(InvalidRequestError, match="another release") as caught:
        services.regressors.publish(OPERATOR, FITTED, 1)

    assert caught.value.faults[0].field == "version"
    assert services.regressors.get(DEFAULT_PROJECT, FITTED, 2).is_published


def test_earlier_formats_are_fitted_again_and_answer(services: Services) -> None:
    for name in ("fitted", "other", "present", "later"):
        publish_regressor(services, name)
    for name in ("fitted", "other"):
        put_format(services.context.database, name, EARLIER)
    put_format(services.context.database, "later", LATER)
    renewal = renewal_of(services)

    assert renewal.look() == 2
    assert renewal.look() == 0
    step_all(services)

    assert renewal.look() == 0
    cache = RegressorCache(services.context)
    versions = {
        name: cache.get(DEFAULT_PROJECT, Slug(name)).version for name in ("fitted", "other")
    }
    assert versions == {"fitted": 2, "other": 2}
    newest = services.fits.list_page(DEFAULT_PROJECT, Slug("present")).items
    assert len(newest) == 1


def test_fits_that_somebody_asked_for_do_not_wait_behind_all_of_them(services: Services) -> None:
    for name in ("a", "b", "c"):
        publish_regressor(services, name)
        put_format(services.context.database, name, EARLIER)
    renewal = renewal_of(services, at_most=2)

    assert renewal.look() == 2
    assert renewal.look() == 0
    make_fitter(services.context).step()
    assert renewal.look() == 1


def test_fit_that_fails_or_is_cancelled_is_not_asked_for_again(
    services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    put_format(services.context.database, "fitted", EARLIER)
    clock.advance(1.0)
    renewal = renewal_of(services)
    assert renewal.look() == 1
    [asked, _] = services.fits.list_page(DEFAULT_PROJECT, FITTED).items

    services.fits.cancel(DEFAULT_PROJECT, asked.fit_id)
    clock.advance(3600.0)

    assert services.fits.get(DEFAULT_PROJECT, asked.fit_id).state is FitState.CANCELLED
    assert renewal.look() == 0
    assert renewal_of(services).look() == 1


def test_nothing_is_looked_for_again_within_the_minute(
    services: Services, clock: FakeClock
) -> None:
    renewal = renewal_of(services)
    assert renewal.look() == 0
    publish_regressor(services)
    put_format(services.context.database, "fitted", EARLIER)

    assert renewal.look() == 0
    clock.advance(61.0)
    assert renewal.look() == 1


def test_workload_without_usable_runs_is_left_alone(services: Services) -> None:
    publish_regressor(services)
    store_runs(services.context, "empty", excluded=True)
    put_format(services.context.database, "fitted", EARLIER)
    for run in services.runs.list_page(DEFAULT_PROJECT, FITTED).items:
        services.runs.delete(OPERATOR, run.run_id)

    assert renewal_of(services).look() == 0


def test_doctor_names_what_another_release_published(services: Services) -> None:
    publish_regressor(services)
    publish_regressor(services, "other")
    put_format(services.context.database, "other", EARLIER)

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert not checks["formats"].is_ok
    assert f"other version 1 (format {EARLIER})" in checks["formats"].detail
    assert checks["regressors"].is_ok
