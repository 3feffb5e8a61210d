"""An operator renews the regressors of all workloads: the old and missing ones, once each."""

from datetime import timedelta

import pytest

from app.domain.access import DEFAULT_PROJECT, Project
from app.domain.errors import NotFoundError
from app.domain.fits import FitState
from app.domain.identifiers import ProjectId, Slug
from app.services.refitting.refits import RefitService
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import QUICK, make_fitter, store_runs

pytestmark = pytest.mark.lengthy

WEEK = timedelta(days=7)


@pytest.fixture
def other_project(services: Services) -> ProjectId:
    key = ProjectId("vision")
    with services.context.database.transaction() as stores:
        stores.access.add_project(Project(key, "vision"), services.context.now())
    return key


def fitted(services: Services, slug: str) -> None:
    store_runs(services.context, slug)
    services.fits.request_fit(DEFAULT_PROJECT, Slug(slug), QUICK)
    make_fitter(services.context).step()


def test_old_and_missing_regressors_are_renewed_once(services: Services, clock: FakeClock) -> None:
    fitted(services, "old")
    clock.advance(WEEK.total_seconds() + 1)
    fitted(services, "young")
    store_runs(services.context, "never")
    store_runs(services.context, "unusable", excluded=True)
    refitting = RefitService(services.context)

    assert refitting.request_all(WEEK) == 2
    assert refitting.request_all(WEEK) == 0

    newest = {
        slug: services.fits.list_page(DEFAULT_PROJECT, Slug(slug)).items[0].state
        for slug in ("old", "never", "young")
    }
    assert newest == {
        "old": FitState.QUEUED,
        "never": FitState.QUEUED,
        "young": FitState.SUCCEEDED,
    }


def test_without_an_age_every_regressor_is_renewed(services: Services, clock: FakeClock) -> None:
    fitted(services, "young")
    clock.advance(1)

    assert RefitService(services.context).request_all(timedelta()) == 1


def test_project_is_renewed_alone(services: Services, other_project: ProjectId) -> None:
    store_runs(services.context, "mine")
    store_runs(services.context, "theirs", project_id=other_project)

    assert RefitService(services.context).request_all(WEEK, project="vision") == 1
    assert not services.fits.list_page(DEFAULT_PROJECT, Slug("mine")).items


def test_unknown_project_is_named(services: Services) -> None:
    with pytest.raises(NotFoundError, match="nobody"):
        RefitService(services.context).request_all(WEEK, project="nobody")


def test_many_workloads_are_asked_for_in_batches(services: Services) -> None:
    for number in range(5):
        store_runs(services.context, f"w{number}", sizes=(1000.0,))

    assert RefitService(services.context, at_once=2).request_all(WEEK) == 5
