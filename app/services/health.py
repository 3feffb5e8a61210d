"""The use cases of life, readiness and diagnosis."""

import shutil
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from app.domain.errors import Fault, NotReadyError, StorageUnavailableError
from app.domain.health import Check, FitActivity
from app.services.context import ServiceContext
from app.services.frames import far_questions
from app.storage.migration import current_revision, head_revision
from app.storage.stores import Stores
from models import ArtifactError, loads

_CLOCK_TOLERANCE_S: Final = 5.0
_FREE_SHARE: Final = 0.05
_ORPHANED_AFTER_LEASES: Final = 4
_NAMED: Final = 5
_RECENT: Final = timedelta(hours=1)
_GIBIBYTE: Final = 1 << 30


def _named(items: list[str]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more


class HealthService:
    """Use cases of life, readiness and diagnosis."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def require_ready(self) -> list[Check]:
        """Return the checks of readiness, all of them well.

        Raises
        ------
        NotReadyError
            If one of them is not; its faults name each.
        """
        checks = self.check_readiness()
        failed = [check for check in checks if not check.is_ok]
        if failed:
            raise NotReadyError(
                [Fault(check.detail, check.remedy, field=check.name) for check in failed]
            )
        return checks

    def check_readiness(self, *, reveal: bool = False) -> list[Check]:
        """Return whether database, schema and a fitter are there.

        `reveal` adds the driver's words, which may name hosts and are for operators alone.
        """
        try:
            return [self._check_database(), self._check_schema(), self._check_fitter()]
        except StorageUnavailableError as error:
            remedy = "Start the database, mend TRAINFARE_DATABASE_URL, or restore a backup."
            detail = f"{error} {error.__cause__}" if reveal else str(error)
            return [Check("database", is_ok=False, detail=detail, remedy=remedy)]

    def diagnose(self) -> list[Check]:
        """Return all that can be checked without stopping anything."""
        checks = self.check_readiness(reveal=True)
        if all(check.is_ok for check in checks if check.name != "fitter"):
            checks += self._check_contents()
        return [*checks, self._check_disk()]

    def count_queue(self) -> tuple[int, int]:
        """Return how many fits wait and how many fitters live."""
        with self._context.database.reading() as stores:
            return stores.fits.queue_length(), self._fitters(stores)

    def fit_activity(self) -> FitActivity:
        """Return what became of the fits of the last hour."""
        now = self._context.now()
        with self._context.database.reading() as stores:
            return stores.diagnosis.fit_activity(now - _RECENT, now)

    def _fitters(self, stores: Stores) -> int:
        lease = timedelta(seconds=self._context.settings.lease_s)
        return stores.fits.fitters_alive(self._context.lease_now(stores) - lease)

    def _check_database(self) -> Check:
        with self._context.database.reading() as stores:
            stores.access.list_projects()
        kind = "SQLite" if self._context.database.is_sqlite else "PostgreSQL"
        return Check("database", is_ok=True, detail=f"{kind} answers")

    def _check_schema(self) -> Check:
        found, needed = current_revision(self._context.database), head_revision()
        detail = f"revision {found or 'none'}" + ("" if found == needed else f", needed {needed}")
        remedy = "Run `trainfare migrate`, or the version of the service that fits."
        return Check("schema", is_ok=found == needed, detail=detail, remedy=remedy)

    def _check_fitter(self) -> Check:
        waiting, alive = self.count_queue()
        return Check(
            "fitter",
            is_ok=alive > 0,
            detail=f"{alive} fitter(s) alive, {waiting} fit(s) waiting",
            remedy="Start one: `trainfare fitter`, or serve with --with-fitter.",
        )

    def _check_contents(self) -> Iterator[Check]:
        with self._context.database.reading() as stores:
            yield self._check_integrity(stores)
            yield self._check_artifacts(stores)
            yield self._check_regressors(stores)
            yield self._check_leases(stores)
            yield self._check_clock(stores)

    def _check_integrity(self, stores: Stores) -> Check:
        corruption = stores.diagnosis.corruption()
        remedy = "Stop the service and restore the last backup."
        return Check("integrity", corruption is None, corruption or "no damage found", remedy)

    def _check_artifacts(self, stores: Stores) -> Check:
        damaged = [
            f"{slug} version {version}" for slug, version in stores.diagnosis.damaged_artifacts()
        ]
        detail = f"damaged: {_named(damaged)}" if damaged else "every artefact matches its hash"
        return Check("artefacts", not damaged, detail, "Fit the named workloads again.")

    def _check_regressors(self, stores: Stores) -> Check:
        """Load what answers forecasts, as a web process does, and ask it far away too."""
        unusable = []
        for slug, version, artifact in stores.diagnosis.published_artifacts():
            try:
                portfolio = loads(artifact)
                portfolio.predict(far_questions(portfolio.report))
            except ArtifactError as error:
                unusable.append(f"{slug} version {version} ({error})")
        detail = f"cannot be used: {_named(unusable)}" if unusable else "all published ones answer"
        remedy = "Publish an earlier version of the named workloads, then fit them again."
        return Check("regressors", not unusable, detail, remedy)

    def _check_leases(self, stores: Stores) -> Check:
        grace = timedelta(seconds=_ORPHANED_AFTER_LEASES * self._context.settings.lease_s)
        orphans = stores.diagnosis.orphaned_fits(self._context.lease_now(stores) - grace)
        detail = f"abandoned: {_named(orphans)}" if orphans else "no fit is abandoned"
        return Check("leases", not orphans, detail, "Start a fitter: it takes them over.")

    def _check_clock(self, stores: Stores) -> Check:
        moment = stores.leases.clock()
        off_s = 0.0 if moment is None else (moment - self._context.now()).total_seconds()
        return Check(
            "clock",
            is_ok=abs(off_s) <= _CLOCK_TOLERANCE_S,
            detail=f"the database's clock differs by {abs(off_s):.1f} s",
            remedy="Let NTP set both clocks: prices and what is recorded depend on them.",
        )

    def _check_disk(self) -> Check:
        folder = self._context.settings.data_dir.absolute()
        while not folder.exists():
            folder = folder.parent
        usage = shutil.disk_usage(folder)
        free, total = usage.free / _GIBIBYTE, usage.total / _GIBIBYTE
        return Check(
            "disk",
            is_ok=usage.free >= _FREE_SHARE * usage.total,
            detail=f"{free:.1f} GiB of {total:.1f} GiB free in {folder}",
            remedy="Free space, or move TRAINFARE_DATA_DIR.",
        )
