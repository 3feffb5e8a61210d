"""The list of all routers."""

from fastapi import APIRouter

from app.api import documentation, fits, health, regressors, runs, workloads

ROUTERS: tuple[APIRouter, ...] = (
    workloads.router,
    runs.router,
    fits.router,
    regressors.router,
    health.router,
    documentation.router,
)
