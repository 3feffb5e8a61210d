"""The list of all routers."""

from fastapi import APIRouter

from app.api import (
    accuracy,
    documentation,
    fits,
    forecasts,
    gpus,
    health,
    prices,
    recommendations,
    regressors,
    runs,
    schedules,
    whatif,
    workloads,
)

ROUTERS: tuple[APIRouter, ...] = (
    workloads.router,
    runs.router,
    fits.router,
    regressors.router,
    forecasts.router,
    whatif.router,
    accuracy.router,
    recommendations.router,
    schedules.router,
    prices.router,
    gpus.router,
    health.router,
    documentation.router,
)
