"""A model in plain Python of what a project must answer after any sequence of requests."""

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple

Filter = Mapping[str, str]
_ACTIVE: Final = ("queued", "running")
UNPROMOTED: Final = "measured on branch topic, not on main; not promoted yet"


class Row(NamedTuple):
    """A row of an upload; those of one external id and equal content are the same run."""

    workload: str
    external_id: str | None
    status: str
    workers: int
    duration_seconds: float
    branch: str | None = None

    @property
    def key(self) -> tuple[str, str | None]:
        """What it has in common with the same run in another upload, if it has an external id."""
        return self.workload, self.external_id

    def to_document(self) -> dict[str, object]:
        """Return it as JSON, without the label of its branch: a CI report gives that to all."""
        return {
            "workload": self.workload,
            "external_id": self.external_id,
            "status": self.status,
            "duration_seconds": self.duration_seconds,
            "configuration": {"gpu_type": "T4", "workers": self.workers},
        }


def to_csv(rows: Sequence[Row]) -> bytes:
    """Return rows as an upload in CSV."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["gpu_type", *Row._fields[:-1]])
    writer.writerows(["T4", *row[:-1]] for row in rows)
    return text.getvalue().encode()


@dataclass
class StoredRun:
    """A run that an answer acknowledged."""

    row: Row
    excluded_reason: str | None = None

    @property
    def is_excluded(self) -> bool:
        """Whether it is kept out of fits."""
        return self.excluded_reason is not None

    @property
    def is_usable(self) -> bool:
        """Whether fits use its duration."""
        return self.row.status == "succeeded" and not self.is_excluded

    def matches(self, wanted: Filter) -> bool:
        """Whether a list with these filters has it."""
        own = {"status": self.row.status, "excluded": str(self.is_excluded).lower()}
        return all(own[name] == value for name, value in wanted.items())


@dataclass
class FitUnderWay:
    """The state of a fit; `token` is the lease of its latest claim."""

    state: str = "queued"
    is_cancel_requested: bool = False
    token: str | None = None
    lease_ends_at: datetime | None = None

    def is_silent(self, now: datetime) -> bool:
        """Whether its fitter has lost it."""
        lease_ends_at = self.lease_ends_at
        return self.state == "running" and lease_ends_at is not None and lease_ends_at < now


@dataclass
class StoredWorkload:
    """A workload from its first upload to its removal."""

    runs: dict[str, StoredRun] = field(default_factory=dict)
    fits: dict[str, FitUnderWay] = field(default_factory=dict)
    n_versions: int = 0
    published: int | None = None

    @property
    def usable(self) -> list[StoredRun]:
        """The runs that a fit may use."""
        return [run for run in self.runs.values() if run.is_usable]

    @property
    def active_fit(self) -> str | None:
        """The fit that waits or is computed."""
        active = [fit_id for fit_id, fit in self.fits.items() if fit.state in _ACTIVE]
        assert len(active) <= 1
        return active[0] if active else None

    def counts(self) -> dict[str, int]:
        """Return how many runs of each status there are."""
        return dict(Counter(run.row.status for run in self.runs.values()))

    def matching(self, wanted: Filter) -> set[str]:
        """Return the names of the runs in a list with these filters."""
        return {run_id for run_id, run in self.runs.items() if run.matches(wanted)}


@dataclass
class StoredProject:
    """What a project holds, and what it no longer does: `gone` are paths that answer 404."""

    workloads: dict[str, StoredWorkload] = field(default_factory=dict)
    reports: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)

    def origins(self, rows: Sequence[Row]) -> list[str | int | None] | None:
        """Return what each row repeats: a run, an earlier row by its index, or nothing.

        None if one contradicts what has its external id.
        """
        firsts: dict[tuple[str, str | None], tuple[Row, str | int]] = {
            run.row.key: (run.row, run_id)
            for workload in self.workloads.values()
            for run_id, run in workload.runs.items()
        }
        origins = list[str | int | None]()
        for index, row in enumerate(rows):
            if row.external_id is None:
                origins.append(None)
                continue
            first, origin = firsts.setdefault(row.key, (row, index))
            if first != row:
                return None
            origins.append(None if origin == index else origin)
        return origins

    def store(self, run_id: str, row: Row, reason: str | None) -> None:
        """Note a run that was stored."""
        workload = self.workloads.setdefault(row.workload, StoredWorkload())
        assert run_id not in workload.runs
        workload.runs[run_id] = StoredRun(row, reason)

    def fits(self) -> dict[str, FitUnderWay]:
        """Return the fits of all workloads."""
        return {
            fit_id: fit for each in self.workloads.values() for fit_id, fit in each.fits.items()
        }

    def runs(self) -> dict[str, StoredRun]:
        """Return the runs of all workloads."""
        return {
            run_id: run for each in self.workloads.values() for run_id, run in each.runs.items()
        }

    def remove_run(self, run_id: str) -> None:
        """Note that a run was removed."""
        for workload in self.workloads.values():
            workload.runs.pop(run_id, None)
        self.gone.append(f"/v1/runs/{run_id}")

    def remove_workload(self, slug: str) -> None:
        """Note that a workload was removed, with its part of the reports."""
        workload = self.workloads.pop(slug)
        self.gone += [f"/v1/runs/{run_id}" for run_id in workload.runs]
        self.gone += [f"/v1/fits/{fit_id}" for fit_id in workload.fits]
        for report_id, entries in list(self.reports.items()):
            rest = [entry for entry in entries if entry[0] != slug]
            if rest:
                self.reports[report_id] = rest
            else:
                del self.reports[report_id]
                self.gone.append(f"/v1/ci/reports/{report_id}")

    def promote(self, report_id: str) -> bool:
        """Include the runs of a report in fits; return whether any is left."""
        left = [
            run
            for slug, run_id in self.reports[report_id]
            if (run := self.workloads[slug].runs.get(run_id)) is not None
        ]
        for run in left:
            if run.excluded_reason == UNPROMOTED:
                run.excluded_reason = None
        return bool(left)


@dataclass
class Cursor:
    """A walk through the pages of a list of runs."""

    workload: StoredWorkload
    wanted: Filter
    awaited: set[str]
    """Runs that matched all the time, and that no page has had yet."""
    seen: set[str] = field(default_factory=set)
    token: str | None = None

    def note(self, names: Sequence[str]) -> None:
        """Note a page; no run comes twice, and each is one of the list."""
        assert len(set(names)) == len(names)
        assert not self.seen & set(names)
        assert set(names) <= self.workload.matching(self.wanted)
        self.seen.update(names)
        self.awaited -= set(names)
