"""The list of all routers, and the authorization that each route requires."""

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from app.api import (
    accuracy,
    ci,
    documentation,
    exchange_rates,
    fits,
    forecasts,
    gpus,
    grid_factors,
    health,
    prices,
    profiling,
    recommendations,
    regressors,
    remaining,
    runs,
    schedules,
    whatif,
    workloads,
)
from app.api.dependencies import READING, Authorization

ROUTERS: tuple[APIRouter, ...] = (
    workloads.router,
    runs.router,
    fits.router,
    regressors.router,
    forecasts.router,
    remaining.router,
    whatif.router,
    accuracy.router,
    ci.router,
    recommendations.router,
    schedules.router,
    profiling.router,
    prices.router,
    exchange_rates.router,
    grid_factors.router,
    gpus.router,
    health.router,
    documentation.router,
)


def authorization_of(scope: Scope) -> Authorization | None:
    """Return the authorization that a request's route requires, None if it has no route here."""
    routes = (route for router in ROUTERS for route in router.routes)
    for route in routes:
        if isinstance(route, APIRoute) and route.matches(scope)[0] is Match.FULL:
            calls = (dependency.call for dependency in route.dependant.dependencies)
            return next(
                (dependency for dependency in calls if isinstance(dependency, Authorization)),
                READING,
            )
    return None
