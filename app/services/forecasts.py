"""The use cases of answering what a configuration would take and cost."""

from app.services.context import ServiceContext


class ForecastService:
    """Use cases of answering what a configuration would take and cost."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
