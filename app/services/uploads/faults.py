"""Collects the faults of an upload: listed up to a limit, counted beyond it."""

import numpy as np

from app.domain.errors import MAX_NAMED_FAULTS, Fault
from app.services.uploads.chunks import BoolArray, IntArray
from app.services.uploads.fields import printable


class FaultCollector:
    """The faults of one upload and the rows that have them."""

    def __init__(self) -> None:
        self.bad_rows: set[int] = set()
        self._unknown: list[Fault] = []
        self._named: list[Fault] = []

    def __bool__(self) -> bool:
        """Whether any row is bad."""
        return bool(self.bad_rows)

    def add(self, row: int, field: str | None, value: object, message: str, remedy: str) -> None:
        """Note that a row is bad, and why."""
        self.bad_rows.add(row)
        if len(self._named) < MAX_NAMED_FAULTS:
            shown = printable(value) if isinstance(value, str) else value
            self._named.append(Fault(message, remedy, field=field, value=shown, row=row))

    def add_unknown_field(self, fault: Fault) -> None:
        """Note a field of a row that does not exist."""
        if len(self._unknown) < MAX_NAMED_FAULTS:
            self._unknown.append(fault)
        if fault.row is not None:
            self.bad_rows.add(fault.row)
        if len(self._named) < MAX_NAMED_FAULTS:
            self._named.append(fault)

    def is_good(self, rows: IntArray) -> BoolArray:
        """Return for each row whether it has no fault."""
        return np.array([row not in self.bad_rows for row in rows.tolist()], dtype=np.bool_)

    @property
    def unknown_fields(self) -> list[Fault]:
        """The faults of names that are no field's."""
        return self._unknown

    @property
    def named(self) -> list[Fault]:
        """The listed faults, by row."""
        return sorted(self._named, key=lambda fault: fault.row or 0)
