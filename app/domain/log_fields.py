"""What every log line tells of the work it was written for: request, fit, workload."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

_NONE: Final[Mapping[str, str]] = {}
current: ContextVar[Mapping[str, str]] = ContextVar("log_fields", default=_NONE)
"""The fields of the work that this thread or task does."""


@contextmanager
def telling(**fields: str) -> Iterator[None]:
    """Let each line that is logged within the block have these fields too."""
    token = current.set({**current.get(), **fields})
    try:
        yield
    finally:
        current.reset(token)
