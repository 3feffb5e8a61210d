"""The list of all routers."""

from fastapi import APIRouter

from app.api import (
    accuracy,
    ci,
    documentation,
    fits,
    forecasts,
    gpus,
    health,
    prices,
    profiling,
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
    ci.router,
    recommendations.router,
<<<<<<< HEAD
    schedules.router,
=======
    profiling.router,
>>>>>>> main
    prices.router,
    gpus.router,
    health.router,
    documentation.router,
)
