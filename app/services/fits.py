"""The use cases of asking for fits, following and cancelling them."""

from app.services.context import ServiceContext


class FitService:
    """Use cases of asking for fits, following and cancelling them."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
