"""The use cases of searching configurations for an objective."""

from app.services.context import ServiceContext


class RecommendationService:
    """Use cases of searching configurations for an objective."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
