"""The use cases of replaying first answers by idempotency key."""

from app.services.context import ServiceContext


class IdempotencyService:
    """Use cases of replaying first answers by idempotency key."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
