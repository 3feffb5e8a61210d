"""The list of all routes, and the authorization that each requires."""

from typing import Final

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match
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

_PARTS: Final = (
    workloads,
    runs,
    fits,
    regressors,
    forecasts,
    remaining,
    whatif,
    accuracy,
    ci,
    recommendations,
    schedules,
    profiling,
    prices,
    exchange_rates,
    grid_factors,
    gpus,
    health,
    documentation,
)
ROUTES: Final[tuple[BaseRoute, ...]] = tuple(
    route for part in _PARTS for route in part.router.routes
)
"""An application takes the routes themselves: where the framework includes routers, it describes
and keeps each route once more."""


def authorization_of(scope: Scope) -> Authorization | None:
    """Return the authorization that a request's route requires, None if it has no route here."""
    for route in ROUTES:
        if isinstance(route, APIRoute) and route.matches(scope)[0] is Match.FULL:
            calls = (dependency.call for dependency in route.dependant.dependencies)
            return next(
                (dependency for dependency in calls if isinstance(dependency, Authorization)),
                READING,
            )
    return None
