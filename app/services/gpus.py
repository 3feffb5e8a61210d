"""The use cases of GPU names, aliases and specifications."""

from app.services.context import ServiceContext


class GpuService:
    """Use cases of GPU names, aliases and specifications."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
