"""From when on the age of a regressor counts, after which its policy wants the next fit."""

import io

import orjson

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import FitState
from app.domain.identifiers import Slug
from app.domain.workloads import RefitMode, RefitPolicy, WorkloadDeclaration
from app.services.refitting.overdue import OverdueRefits
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.regressors import QUICK, make_fitter, store_runs
from tests.support.uploads import make_json_run

_SLUG = Slug("resnet50")


def _states(services: Services) -> list[FitState]:
    return [item.state for item in services.fits.list_page(DEFAULT_PROJECT, _SLUG).items]


def test_the_age_of_a_fit_that_had_to_wait_counts_from_its_beginning(
    services: Services, clock: FakeClock
) -> None:
    store_runs(services.context, _SLUG)
    policy = RefitPolicy(RefitMode.AUTO, min_new_runs=100, max_age_s=3600.0)
    services.workloads.declare(DEFAULT_PROJECT, _SLUG, WorkloadDeclaration(refit_policy=policy))
    services.fits.request_fit(DEFAULT_PROJECT, _SLUG, QUICK)
    clock.advance(3600)
    make_fitter(services.context).step()
    clock.advance(60)
    overdue = OverdueRefits(services.context, at_most=4)

    body = io.BytesIO(orjson.dumps([make_json_run()]))
    services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON)
    young, queued_while_young = _states(services), overdue.look()
    clock.advance(3600)

    assert (young, queued_while_young) == ([FitState.SUCCEEDED], 0)
    assert overdue.look() == 1
