"""What a caller states about an import besides its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timezone, tzinfo

from trainfare_client.importers.mapping import ColumnMap


@dataclass(frozen=True)
class Options:
    """Options of all importers; each uses those that apply to it.

    Attributes
    ----------
    mapping
        The fields that the caller fills.
    delimiter
        The separator of a table's cells; None if its header shows it.
    zone
        The time zone of instants without an offset.
    key
        The caller's own id for what a file measured, such as that of a CI run.
    measures
        Units of a benchmark's measures, by name.
    parameters
        The parameters to take; all if none is named.
    """

    mapping: ColumnMap = field(default_factory=ColumnMap)
    delimiter: str | None = None
    zone: tzinfo = timezone.utc
    key: str | None = None
    measures: Mapping[str, str] = field(default_factory=dict)
    parameters: frozenset[str] = frozenset()

    @property
    def has_workload(self) -> bool:
        """Whether the caller names the workload."""
        return "workload" in self.mapping.fields
