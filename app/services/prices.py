"""The use cases of a project's own prices beside the built-in catalogue."""

from app.services.context import ServiceContext


class PriceService:
    """Use cases of a project's own prices beside the built-in catalogue."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
