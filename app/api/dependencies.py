"""Dependencies of routes: the services, the caller, a workload's id."""

from typing import Annotated

from fastapi import Depends, Path, Request
from pydantic import AfterValidator

from app.api.schemas.base import check_slug
from app.domain.access import Principal, Scope
from app.domain.access_errors import ForbiddenError
from app.domain.identifiers import Slug
from app.services.wiring import Services


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


class Authorization:
    """Admits callers whose key allows `scope`.

    Parameters
    ----------
    scope
        The scope that the key must allow.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def check(self, principal: Principal) -> Principal:
        """Return the caller.

        Raises
        ------
        ForbiddenError
            If its key does not allow the scope.
        """
        if not principal.allows(self.scope):
            raise ForbiddenError(self.scope.value)
        return principal

    async def __call__(self, request: Request) -> Principal:
        """Return the caller of a request, or raise as `check` does."""
        return self.check(request.scope["state"]["principal"])


READING = Authorization(Scope.READ)
"""The authorization of routes that name no other."""


def services_and_reader(request: Request) -> tuple[Services, Principal]:
    """Return the services and a caller with read access, without the cost of dependencies.

    Raises
    ------
    ForbiddenError
        If the caller's key may not read.
    """
    services: Services = request.app.state.services
    return services, READING.check(request.scope["state"]["principal"])


ServicesDep = Annotated[Services, Depends(_services)]
Reader = Annotated[Principal, Depends(READING)]
RunsWriter = Annotated[Principal, Depends(Authorization(Scope.RUNS_WRITE))]
FitsWriter = Annotated[Principal, Depends(Authorization(Scope.FITS_WRITE))]
PricesWriter = Annotated[Principal, Depends(Authorization(Scope.PRICES_WRITE))]
WorkloadPath = Annotated[
    Slug,
    Path(description="the workload's id", min_length=1, max_length=120),
    AfterValidator(check_slug),
]
