"""Exports in the form of an upload: columns, and runs page by page."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.domain.flat_fields import PARAMETER
from app.domain.pages import Page
from app.domain.runs import Run
from app.domain.workloads import Workload
from app.services.uploads.fields import EXCLUSION, LABEL, PHASE, RESOURCE
from app.services.uploads.flat import FLAT_FIELDS
from app.storage.stores import Stores


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


def upload_columns(stores: Stores, workload: Workload) -> list[str]:
    """Return the columns that a file of all runs of a workload needs."""
    key = workload.workload_id
    families = {
        PARAMETER: sorted(workload.declaration.parameters),
        PHASE: stores.runs.names_in("phases", key),
        RESOURCE: stores.runs.names_in("resources", key),
        LABEL: stores.runs.names_in("labels", key),
    }
    members = [family + name for family, names in families.items() for name in names]
    return ["workload", "external_id", *FLAT_FIELDS, EXCLUSION, *members]
