"""The use cases of life and readiness."""

from datetime import timedelta
from typing import Final

from app.domain.errors import Fault, NotReadyError, StorageUnavailableError
from app.domain.health import Check, FitActivity
from app.services.context import ServiceContext
from app.storage.migration import current_revision, head_revision
from app.storage.stores import Stores

_RECENT: Final = timedelta(hours=1)


class HealthService:
    """Use cases of life and readiness."""

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
