"""The use cases of the registry of regressor versions: list, show, publish."""

from app.services.context import ServiceContext


class RegressorService:
    """Use cases of the registry of regressor versions: list, show, publish."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
