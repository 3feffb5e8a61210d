"""A bounded cache shared by threads; the least recently used entry is dropped first."""

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


@dataclass(slots=True)
class CacheFigures:
    """How often a look-up in a cache succeeded and failed."""

    hits: int = 0
    misses: int = 0


class RecentlyUsed(Generic[_Key, _Value]):
    """At most `size` values by key.

    Examples
    --------
    >>> kept = RecentlyUsed[str, int](1)
    >>> kept.put("a", 1)
    >>> kept.put("b", 2)
    >>> kept.get("a"), kept.get("b"), len(kept)
    (None, 2, 1)
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[_Key, _Value] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        """Return the value, None if there is none; it then counts as used."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
        return value

    def put(self, key: _Key, value: _Value) -> None:
        """Store a value."""
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._size:
                self._values.popitem(last=False)

    def __len__(self) -> int:
        return len(self._values)
