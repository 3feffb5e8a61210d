"""Leases go by one clock for all fitters, whatever the clocks of their machines do."""

from datetime import timedelta

import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import FitState
from app.domain.health import Fitters
from app.domain.identifiers import Slug
from app.services.context import ServiceContext, by_database, utc_now
from app.services.fits import FitService
from app.services.fitting import FittingService
from app.services.health import HealthService
from app.services.wiring import Services
from app.storage.tables import FitRow
from tests.support.regressors import QUICK, store_runs

SLUG = Slug("resnet")


def test_step_of_one_clock_neither_takes_nor_keeps_a_lease(services: Services) -> None:
    database, settings = services.context.database, services.context.settings
    store_runs(services.context, SLUG)
    store_runs(services.context, "later")
    right = ServiceContext(database, settings)
    ahead = ServiceContext(
        database, settings, now=lambda: utc_now() + timedelta(days=1), shared_now=by_database
    )
    fit, _ = services.fits.request_fit(DEFAULT_PROJECT, SLUG, QUICK)
    held = FittingService(right).claim("right")
    taken = FittingService(ahead).claim("ahead")
    other, _ = services.fits.request_fit(DEFAULT_PROJECT, Slug("later"), QUICK)

    FittingService(ahead).claim("ahead")

    with database.engine.connect() as connection:
        expiry = connection.execute(
            sa.select(FitRow.lease_expires_at).where(FitRow.id == other.fit_id)
        ).scalar_one()
    cancelled = FitService(ahead).cancel(DEFAULT_PROJECT, fit.fit_id)
    assert held is not None
    assert taken is None
    assert expiry is not None
    assert expiry < utc_now() + timedelta(seconds=settings.lease_s + 60.0)
    # Its fitter lives: it ends the fit itself.
    assert cancelled.state is FitState.RUNNING


def test_fitter_lives_also_for_a_service_whose_clock_is_ahead(services: Services) -> None:
    database, settings = services.context.database, services.context.settings
    right = ServiceContext(database, settings)
    ahead = ServiceContext(
        database, settings, now=lambda: utc_now() + timedelta(days=1), shared_now=by_database
    )
    FittingService(right).seen("right", utc_now())

    assert HealthService(ahead).count_queue() == (0, Fitters(alive=1))
