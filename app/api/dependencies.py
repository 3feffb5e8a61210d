"""What routes ask for: the services, the caller, a workload's id."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Request
from pydantic import AfterValidator

from app.api.schemas.base import check_slug
from app.domain.access import Principal, Scope
from app.domain.errors import ForbiddenError
from app.domain.identifiers import Slug
from app.services.wiring import Services


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def _caller(scope: Scope) -> Callable[[Request], object]:
    async def authorize(request: Request) -> Principal:
        principal: Principal = request.scope["state"]["principal"]
        if not principal.allows(scope):
            raise ForbiddenError(scope.value)
        return principal

    return authorize


def services_and_reader(request: Request) -> tuple[Services, Principal]:
    """Return the services and a caller who may read, without the cost of dependencies.

    Raises
    ------
    ForbiddenError
        If the caller's key may not read.
    """
    principal: Principal = request.scope["state"]["principal"]
    if not principal.allows(Scope.READ):
        raise ForbiddenError(Scope.READ.value)
    services: Services = request.app.state.services
    return services, principal


ServicesDep = Annotated[Services, Depends(_services)]
Reader = Annotated[Principal, Depends(_caller(Scope.READ))]
RunsWriter = Annotated[Principal, Depends(_caller(Scope.RUNS_WRITE))]
FitsWriter = Annotated[Principal, Depends(_caller(Scope.FITS_WRITE))]
PricesWriter = Annotated[Principal, Depends(_caller(Scope.PRICES_WRITE))]
Admin = Annotated[Principal, Depends(_caller(Scope.ADMIN))]
WorkloadPath = Annotated[
    Slug,
    Path(description="the workload's id", min_length=1, max_length=120),
    AfterValidator(check_slug),
]
