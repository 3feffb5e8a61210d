"""The list of all routers."""

from fastapi import APIRouter

from app.api import documentation, fits, forecasts, health, regressors, runs, whatif, workloads

ROUTERS: tuple[APIRouter, ...] = (
    workloads.router,
    runs.router,
    fits.router,
    regressors.router,
    forecasts.router,
    whatif.router,
    health.router,
    documentation.router,
)
