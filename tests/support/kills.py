"""A process that is killed in the middle of a transaction."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from typing_extensions import override

from app.services.context import ServiceContext
from app.storage.database import Database
from app.storage.stores import Stores


class Killed(BaseException):
    """The process ends here."""


def killed_after(context: ServiceContext, transactions: int) -> ServiceContext:
    """Return a context whose process is killed in the transaction after so many."""

    class Dying(Database):
        left = transactions

        @override
        @contextmanager
        def transaction(self) -> Iterator[Stores]:
            with super().transaction() as stores:
                yield stores
                if self.left == 0:
                    raise Killed
                self.left -= 1

    return replace(context, database=Dying(context.settings.url))
