"""Pages of a newest-first list that stay stable while rows are inserted."""

from collections.abc import Callable, Sequence
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


def page_of(found: Sequence[Item], size: int, *, key: Callable[[Item], object]) -> Page[Item]:
    """Return a page from a search for one item more, which shows whether there is another page.

    Examples
    --------
    >>> page_of([9, 8, 7], 2, key=int)
    Page(items=[9, 8], next_key='8')
    >>> page_of([9, 8], 2, key=int).next_key
    """
    items = found[:size]
    return Page(items, str(key(items[-1])) if len(found) > size else None)
