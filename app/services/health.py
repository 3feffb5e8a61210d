"""The use cases of life and readiness."""

from app.services.context import ServiceContext


class HealthService:
    """Use cases of life and readiness."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
