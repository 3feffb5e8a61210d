"""Reads server-sent events (WHATWG HTML, 9.2) line by line."""

from __future__ import annotations

import json
from typing import Any


class EventReader:
    """Collects lines until an event is complete."""

    def __init__(self) -> None:
        self._data: list[str] = []

    def read(self, line: str) -> Any:
        """Return the document of the event that a line completes, otherwise None.

        Examples
        --------
        >>> reader = EventReader()
        >>> [reader.read(line) for line in ('event: end', 'data: {"progress": 1}', '')]
        [None, None, {'progress': 1}]
        """
        if line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        if line or not self._data:
            return None
        document = json.loads("\n".join(self._data))
        self._data.clear()
        return document
