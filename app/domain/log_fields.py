"""The fields of every log line that name its work: request, fit, workload."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_NONE: Final[Mapping[str, str]] = {}
current: ContextVar[Mapping[str, str]] = ContextVar("log_fields", default=_NONE)
"""The fields of the current work of this thread or task."""


@contextmanager
def telling(**fields: str) -> Iterator[None]:
    """Add these fields to each line that is logged within the block."""
    token = current.set({**current.get(), **fields})
    try:
        yield
    finally:
        current.reset(token)
