"""The list of all routers."""

from fastapi import APIRouter

from app.api import documentation, fits, health, regressors

ROUTERS: tuple[APIRouter, ...] = (
    fits.router,
    regressors.router,
    health.router,
    documentation.router,
)
