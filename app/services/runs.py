"""The use cases of uploading, listing and changing measured runs."""

from app.services.context import ServiceContext


class RunService:
    """Use cases of uploading, listing and changing measured runs."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
