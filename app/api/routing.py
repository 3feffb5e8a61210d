"""The list of all routers."""

from fastapi import APIRouter

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
