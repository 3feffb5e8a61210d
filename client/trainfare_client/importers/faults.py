"""What is wrong with a source, and what an import left out, with file and line."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.errors import TrainfareError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_NAMED: Final = 1000


def at_line(file: str, line: int) -> str:
    """Return the name of a place: a file, and a line counted from 1.

    Examples
    --------
    >>> at_line("runs.csv", 12)
    'runs.csv:12'
    """
    return f"{file}:{line}"


@dataclass(frozen=True)
class Fault:
    """One fault, and what to do about it."""

    place: str
    message: str
    remedy: str

    @property
    def sentence(self) -> str:
        """The fault as shown to the user."""
        return f"{self.place}: {self.message} {self.remedy}".strip()

    @classmethod
    def from_problem(cls, place: str, problem: Mapping[str, Any]) -> Fault:
        """Return the service's fault of a row, which names field and value."""
        field_name, value = problem.get("field"), problem.get("value")
        value_shown = "" if value is None else f" {value!r}"
        subject = f"{field_name}{value_shown}: " if field_name else ""
        message = f"{subject}{problem.get('message', '')}"
        return cls(place, message, str(problem.get("remedy") or ""))


class ImportRefusedError(TrainfareError):
    """A source cannot be imported; nothing was uploaded.

    Attributes
    ----------
    faults
        The first thousand faults; `fault_count` counts all.
    """

    def __init__(
        self,
        message: str,
        remedy: str = "",
        *,
        faults: tuple[Fault, ...] = (),
        fault_count: int = 0,
    ) -> None:
        super().__init__(message, remedy)
        self.faults = faults
        self.fault_count = fault_count or len(faults)


class SourceError(ImportRefusedError):
    """A source cannot be read any further.

    Attributes
    ----------
    place, reason
        Where, and why.
    """

    def __init__(self, place: str, reason: str, remedy: str) -> None:
        super().__init__(f"{place}: {reason}", remedy)
        self.place = place
        self.reason = reason


class RowError(TrainfareError):
    """One row cannot be read; the others can."""


@dataclass
class Report:
    """Collects bad rows, and counts rows that are left out on purpose.

    Attributes
    ----------
    faults, fault_count
        The first thousand bad rows, and how many there are.
    notes
        How many rows were left out, by reason.
    unread
        Columns that no importer uses.
    """

    faults: list[Fault] = field(default_factory=list)
    fault_count: int = 0
    notes: Counter[str] = field(default_factory=Counter)
    unread: dict[str, None] = field(default_factory=dict)

    def add(self, place: str, message: str, remedy: str) -> None:
        """Record a bad row."""
        self.fault_count += 1
        if len(self.faults) < MAX_NAMED:
            self.faults.append(Fault(place, message, remedy))

    def leave_out(self, reason: str) -> None:
        """Count a row that is left out although nothing is wrong with it."""
        self.notes[reason] += 1

    def pass_over(self, columns: Iterable[str]) -> None:
        """Record columns that are not used."""
        self.unread.update(dict.fromkeys(columns))

    def refuse(self) -> ImportRefusedError:
        """Return the error that lists the bad rows."""
        rows = "1 row is" if self.fault_count == 1 else f"{self.fault_count:,} rows are"
        return ImportRefusedError(
            f"{rows} bad; nothing was imported.",
            "Correct them, or import the others with --skip-invalid.",
            faults=tuple(self.faults),
            fault_count=self.fault_count,
        )
