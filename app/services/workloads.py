"""The use cases of declaring, reading and deleting workloads."""

from app.services.context import ServiceContext


class WorkloadService:
    """Use cases of declaring, reading and deleting workloads."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
