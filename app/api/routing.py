"""The list of all routers."""

from fastapi import APIRouter

from app.api import documentation, fits, health, regressors, runs

ROUTERS: tuple[APIRouter, ...] = (
    runs.router,
    fits.router,
    regressors.router,
    health.router,
    documentation.router,
)
