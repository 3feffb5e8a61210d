"""Pages of a newest-first list that stay stable while rows are inserted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

DEFAULT_PAGE_SIZE: Final = 50
MAX_PAGE_SIZE: Final = 1000


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some items and the key after which the next page starts, None at the end."""

    items: Sequence[Item]
    next_key: str | None = None
