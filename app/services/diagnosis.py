"""The use case of diagnosis: everything that can be checked without stopping anything."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from app.domain.access import DEFAULT_PROJECT
from app.domain.availability_errors import (
    ForeignOrderError,
    SharedSessionsError,
    StorageUnavailableError,
)
from app.domain.health import Check
from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.domain.wording import say_count
from app.services.context import ServiceContext
from app.services.health import HealthService
from app.services.tables.frames import far_questions
from app.storage.collations import require_time_order
from app.storage.database import Database
from app.storage.migration import head_revision, missing_parts
from app.storage.poolers import require_own_sessions
from app.storage.stores import Stores
from models import FORMAT_VERSION, ArtifactError, loads

_CLOCK_TOLERANCE_S: Final = 5.0
_FREE_SHARE: Final = 0.05
_ORPHANED_AFTER_LEASES: Final = 4
_NAMED: Final = 5
_GIBIBYTE: Final = 1 << 30
_LET_WRITE: Final = (
    "Set TRAINFARE_DATABASE_URL to the primary, not a standby, with a user who may change all"
    " tables and use their sequences; for SQLite, make the file and its folder writable."
)
_WAIT_FOR_IT: Final = (
    "Let NTP set all clocks. Refit policies overlook new runs until that time: ask for fits"
    " meanwhile."
)
_FIX_FIRST: Final = "Fix the other findings, or restore the last backup; then check again."
_RECORD_ONE: Final = (
    "Stop the service and leave one row in alembic_version: the revision that the tables have (%s"
    " after this release's `trainfare migrate`). Where it is not known, restore the last backup."
)
_REMOVE_DAMAGED: Final = (
    "Fit the named workloads again. What is damaged stays until `trainfare prune"
    " --regressors-older-than AGE` removes it with what else no longer answers, or the last backup"
    " is restored."
)
_START_ANEW: Final = (
    "Stop the service, move the file away, with those beside it that end in -wal and -shm, and"
    " restore the last backup."
)


class _Names:
    """Names workloads for an operator, who looks after all projects."""

    def __init__(self, stores: Stores) -> None:
        projects = stores.access.list_projects()
        self._projects = {project.project_id: project.name for project in projects}

    def of(self, project_id: ProjectId, slug: Slug) -> str:
        """Return a workload's id, outside the default project after the project's name."""
        name = self._projects.get(project_id, project_id)
        return slug if project_id == DEFAULT_PROJECT else f"{name}/{slug}"


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more


class Recounted(NamedTuple):
    """Names of what was counted again."""

    workloads: list[str]
    projects: list[str]


class DiagnosisService:
    """The use case of diagnosis."""

    def __init__(self, context: ServiceContext, health: HealthService) -> None:
        self._context = context
        self._health = health

    def diagnose(self) -> list[Check]:
        """Return the checks of everything that can be checked without stopping anything."""
        # `_check_contents` tests writing more thoroughly.
        checks = [
            check for check in self._health.check_readiness(reveal=True) if check.name != "writing"
        ]
        if all(check.is_ok for check in checks if check.name != "fitter"):
            checks += self._check_contents()
        checks = [
            self._check_records() or check if check.name == "schema" else check for check in checks
        ]
        file = self._context.database.file
        # Where PostgreSQL keeps its files, and how full that disk is, only its machine knows.
        return checks if file is None else [*checks, _check_disk(file.parent)]

    def _check_records(self) -> Check | None:
        """Return a failed check of the schema if its revision is not recorded in one row."""
        with self._context.database.reading() as stores:
            revisions = stores.diagnosis.recorded_revisions()
        if revisions is None or len(revisions) == 1:
            return None
        rows = f": {_listed(revisions)}" if revisions else ""
        detail = f"alembic_version has {say_count(len(revisions), 'row')}{rows}"
        return Check("schema", is_ok=False, detail=detail, remedy=_RECORD_ONE % head_revision())

    def recount(self) -> Recounted:
        """Recount the runs of workloads and projects whose counts are wrong."""
        with self._context.database.reading() as stores:
            workloads, projects = stores.run_counts.wrong(), stores.quotas.wrong()
            names = _Names(stores)
        recounted = [
            names.of(project_id, slug)
            for project_id, workload_id, slug in workloads
            if self._has_recounted(project_id, workload_id, slug)
        ]
        # Afterwards: the runs of a project are those of its workloads.
        for project in projects:
            with self._context.database.transaction() as stores:
                stores.quotas.put(project.project_id, stores.quotas.lock(project.project_id))
        return Recounted(recounted, [project.name for project in projects])

    def _has_recounted(self, project_id: ProjectId, workload_id: WorkloadId, slug: Slug) -> bool:
        """Recount the runs of a workload unless it was removed meanwhile."""
        # One transaction each, so that uploads to other workloads do not wait.
        with self._context.database.transaction() as stores:
            stores.workloads.lock(project_id, slug)
            if not stores.workloads.hold([workload_id]):
                return False
            stores.run_counts.recount(workload_id)
        return True

    def _check_contents(self) -> Iterator[Check]:
        """Check each part in a transaction of its own: damage may end the transaction."""
        checks: dict[str, Callable[[Stores], Check]] = {
            "sessions": self._check_sessions,
            "order": self._check_order,
            "tables": self._check_tables,
            "writing": self._check_writing,
            "integrity": self._check_integrity,
            "artefacts": self._check_artifacts,
            "formats": self._check_formats,
            "regressors": self._check_regressors,
            "leases": self._check_leases,
            "counts": self._check_counts,
            "clock": self._check_clock,
        }
        if self._context.database.is_sqlite:
            # A file has no sessions, and one order.
            del checks["sessions"], checks["order"]
        for name, check in checks.items():
            try:
                with self._context.database.reading() as stores:
                    result = check(stores)
            except StorageUnavailableError as error:
                detail = f"cannot be examined: {error.reason}"
                result = Check(name, is_ok=False, detail=detail, remedy=_FIX_FIRST)
            yield result

    def _check_sessions(self, _stores: Stores) -> Check:
        detail = "each connection keeps its own"
        if self._context.database.shares_sessions:
            detail = "shared by a pooler, as pool_mode=transaction says"
        return self._check_required("sessions", require_own_sessions, detail)

    def _check_order(self, _stores: Stores) -> Check:
        detail = "identifiers sort by their creation"
        return self._check_required("order", require_time_order, detail)

    def _check_required(self, name: str, require: Callable[[Database], None], detail: str) -> Check:
        try:
            require(self._context.database)
        except (SharedSessionsError, ForeignOrderError) as error:
            return Check(name, is_ok=False, detail=error.reason, remedy=error.remedy)
        return Check(name, is_ok=True, detail=detail)

    def _check_tables(self, _stores: Stores) -> Check:
        missing = missing_parts(self._context.database)
        detail = (
            f"missing: {_listed(missing)}" if missing else "all are as the migrations made them"
        )
        remedy = "Recreate what was dropped, as the migrations do, or restore the last backup."
        return Check("tables", not missing, detail, remedy)

    def _check_writing(self, _stores: Stores) -> Check:
        """Try changes that affect no row: a standby, or a read-only user, refuses these too."""
        refusal = ""
        try:
            with self._context.database.transaction() as stores:
                refusal = stores.diagnosis.change_nothing()
        except StorageUnavailableError as error:
            refusal = error.reason
        detail = f"is refused: {refusal}" if refusal else "all tables can be changed"
        return Check("writing", not refusal, detail, _LET_WRITE)

    def _check_integrity(self, stores: Stores) -> Check:
        corruption = stores.diagnosis.corruption()
        return Check("integrity", corruption is None, corruption or "no damage found", _START_ANEW)

    def _check_artifacts(self, stores: Stores) -> Check:
        names = _Names(stores)
        damaged = [
            f"{names.of(project_id, slug)} version {version}"
            for project_id, slug, version in stores.diagnosis.damaged_artifacts()
        ]
        detail = f"damaged: {_listed(damaged)}" if damaged else "every artefact matches its hash"
        return Check("artefacts", not damaged, detail, _REMOVE_DAMAGED)

    def _check_formats(self, stores: Stores) -> Check:
        """Report versions published by another release that this one cannot read."""
        names = _Names(stores)
        others = [
            f"{names.of(project_id, slug)} version {version} (format {format_version})"
            for project_id, slug, version, format_version in stores.diagnosis.published_formats()
            if format_version != FORMAT_VERSION
        ]
        detail = f"of another release: {_listed(others)}" if others else "all are this release's"
        remedy = (
            "Wait for the fitters of this release, which fit earlier formats again; for a later"
            " format run its release. Until then the previous version answers, if there is one."
        )
        return Check("formats", not others, detail, remedy)

    def _check_regressors(self, stores: Stores) -> Check:
        """Load what answers forecasts, as a web process does; ask it far beyond its range too."""
        names, unusable = _Names(stores), []
        published = stores.diagnosis.published_artifacts(FORMAT_VERSION)
        for project_id, slug, version, artifact in published:
            try:
                portfolio = loads(artifact)
                portfolio.predict(far_questions(portfolio.report))
            except ArtifactError as error:
                unusable.append(f"{names.of(project_id, slug)} version {version} ({error})")
        detail = f"cannot be used: {_listed(unusable)}" if unusable else "all published ones answer"
        remedy = "Publish an earlier version of the named workloads, then fit them again."
        return Check("regressors", not unusable, detail, remedy)

    def _check_leases(self, stores: Stores) -> Check:
        grace = timedelta(seconds=_ORPHANED_AFTER_LEASES * self._context.settings.lease_s)
        orphaned = stores.diagnosis.orphaned_fits(self._context.lease_now(stores) - grace)
        detail = f"abandoned: {_listed(orphaned)}" if orphaned else "no fit is abandoned"
        return Check("leases", not orphaned, detail, "Start a fitter: it takes them over.")

    def _check_counts(self, stores: Stores) -> Check:
        names = _Names(stores)
        wrong = [names.of(project_id, slug) for project_id, _, slug in stores.run_counts.wrong()]
        wrong += [f"project {project.name}" for project in stores.quotas.wrong()]
        detail = f"counted wrongly: {_listed(wrong)}" if wrong else "all counts of runs are right"
        return Check("counts", not wrong, detail, "Run `trainfare recount`.")

    def _check_clock(self, stores: Stores) -> Check:
        database_now, now = stores.leases.clock(), self._context.now()
        newest = stores.diagnosis.newest_record()
        if newest is not None and (newest - now).total_seconds() > _CLOCK_TOLERANCE_S:
            detail = f"the newest record is of {newest:%Y-%m-%d %H:%M} UTC, ahead of this clock"
            return Check("clock", is_ok=False, detail=detail, remedy=_WAIT_FOR_IT)
        offset_s = 0.0 if database_now is None else (database_now - now).total_seconds()
        return Check(
            "clock",
            is_ok=abs(offset_s) <= _CLOCK_TOLERANCE_S,
            detail=f"the database's clock differs by {abs(offset_s):.1f} s",
            remedy="Let NTP set both clocks: prices and what is recorded depend on them.",
        )


def _check_disk(folder: Path) -> Check:
    while not folder.exists():
        folder = folder.parent
    usage = shutil.disk_usage(folder)
    free, total = usage.free / _GIBIBYTE, usage.total / _GIBIBYTE
    return Check(
        "disk",
        is_ok=usage.free >= _FREE_SHARE * usage.total,
        detail=f"{free:.1f} GiB of {total:.1f} GiB free in {folder}",
        remedy="Free space, or move what is there.",
    )
