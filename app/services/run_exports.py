"""Exports in the form of an upload: columns, and runs page by page."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from app.domain.flat_fields import PARAMETER
from app.domain.identifiers import WorkloadId
from app.domain.instants import elapsed
from app.domain.pages import Page
from app.domain.runs import Run
from app.domain.workloads import Workload
from app.services.recently_used import RecentlyUsed
from app.services.uploads.fields import EXCLUSION, LABEL, MAX_NAMES, PHASE, RESOURCE
from app.services.uploads.flat import FLAT_FIELDS
from app.storage.runs import RunFamily
from app.storage.stores import Stores

FRESH_FOR: Final = timedelta(minutes=5)
_MOST_WORKLOADS: Final = 100
_MOST_NAMES: Final = 1000
_FAMILIES: Final[Mapping[str, RunFamily]] = {
    PHASE: "phases",
    RESOURCE: "resources",
    LABEL: "labels",
}
_Names = Mapping[str, frozenset[str]]
"""Names by the prefix of their columns."""


@dataclass(frozen=True, slots=True)
class RunExport:
    """Runs in the form of an upload: its columns, and the runs page by page."""

    columns: Sequence[str]
    pages: Iterator[Sequence[Run]]
    next_page_token: str | None


def all_pages(first: Page[Run], read: Callable[[str], Page[Run]]) -> Iterator[Sequence[Run]]:
    """Yield the runs of a page and of all following ones, each read when needed."""
    page = first
    yield page.items
    while page.next_key is not None:
        page = read(page.next_key)
        yield page.items


class MemberNames:
    """The names that the runs of workloads use for phases, resources and labels.

    Finding them takes all runs of a workload. For its pages they are therefore remembered for
    `FRESH_FOR` (see `page_columns`).
    """

    def __init__(self) -> None:
        self._known = RecentlyUsed[WorkloadId, tuple[datetime, _Names]](_MOST_WORKLOADS)

    def read(self, stores: Stores, workload_id: WorkloadId, now: datetime) -> _Names:
        """Return the names in all runs of a workload."""
        names = {
            prefix: frozenset(stores.runs.names_in(family, workload_id))
            for prefix, family in _FAMILIES.items()
        }
        if sum(map(len, names.values())) <= _MOST_NAMES:
            self._known.put(workload_id, (now, names))
        return names

    def recent(self, stores: Stores, workload_id: WorkloadId, now: datetime) -> _Names:
        """Return the names in all runs of a workload as they were at most `FRESH_FOR` ago."""
        known = self._known.get(workload_id)
        if known is None or elapsed(known[0], now) > FRESH_FOR:
            return self.read(stores, workload_id, now)
        return known[1]


def upload_columns(workload: Workload, names: _Names) -> list[str]:
    """Return the columns that a file of all runs of a workload needs."""
    return _columns(workload.declaration.parameters, names)


def page_columns(workload: Workload, names: _Names, runs: Sequence[Run]) -> list[str]:
    """Return the columns of a page of runs: those of all runs, and those that its own need.

    Where these are more than an upload may have, the page has none that its runs do not need.
    """
    own = {
        prefix: frozenset[str]().union(*(getattr(run, family) for run in runs))
        for prefix, family in _FAMILIES.items()
    }
    known = {prefix: names[prefix] | found for prefix, found in own.items()}
    columns = _columns(workload.declaration.parameters, known)
    if len(columns) <= MAX_NAMES:
        return columns
    return _columns({name for run in runs for name in run.scenario.parameters}, own)


def _columns(parameters: Collection[str], names: _Names) -> list[str]:
    members = [PARAMETER + name for name in sorted(parameters)]
    for prefix in _FAMILIES:
        members += [prefix + name for name in sorted(names[prefix])]
    return ["workload", "external_id", *FLAT_FIELDS, EXCLUSION, *members]
