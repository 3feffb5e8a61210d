"""The use cases of liveness and readiness."""

from datetime import timedelta
from typing import Final

from app.domain.availability_errors import (
    NotReadyError,
    StorageUnavailableError,
    StorageUnusableError,
)
from app.domain.errors import Fault
from app.domain.health import Check, FitActivity, Fitters
from app.domain.wording import say_count
from app.services.context import ServiceContext
from app.storage.migration import current_revision, head_revision

_RECENT: Final = timedelta(hours=1)
_FIX_THE_DATABASE: Final = (
    "Start the database, correct TRAINFARE_DATABASE_URL or the permission to write there, run"
    " `trainfare migrate` where it is empty, or restore a backup, before which a damaged file of"
    " SQLite has to be moved away."
)
_NAME_THE_PRIMARY: Final = (
    "Set TRAINFARE_DATABASE_URL to the primary, not a standby, and let it accept changes"
    " (default_transaction_read_only)."
)
_START_A_FITTER: Final = "Start one: `trainfare fitter`, or serve with --with-fitter."
_START_RAY: Final = "Start the Ray cluster, or correct TRAINFARE_RAY_ADDRESS of the fitters."


def _unavailable(error: StorageUnavailableError, *, reveal: bool = False) -> Check:
    detail = f"{error} It says: {error.reason}" if reveal else str(error)
    is_general = type(error) in {StorageUnavailableError, StorageUnusableError}
    remedy = _FIX_THE_DATABASE if is_general else error.remedy
    return Check("database", is_ok=False, detail=detail, remedy=remedy)


class HealthService:
    """Use cases of liveness and readiness."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    @staticmethod
    def require_ready(checks: list[Check] | None) -> list[Check]:
        """Return the readiness checks if all of them pass.

        Parameters
        ----------
        checks
            The result of `check_readiness`; None if it took too long.

        Raises
        ------
        NotReadyError
            If a check fails; the faults name each one.
        """
        if checks is None:
            checks = [_unavailable(StorageUnavailableError())]
        failed = [check for check in checks if not check.is_ok]
        if failed:
            raise NotReadyError(
                [Fault(check.detail, check.remedy, field=check.name) for check in failed]
            )
        return checks

    def check_readiness(self, *, reveal: bool = False) -> list[Check]:
        """Check that the database, its schema and a fitter are there.

        `reveal` adds the driver's messages, which may name hosts and are for operators alone.
        """
        try:
            checks = self._check_database()
            if not checks[-1].is_ok:
                return checks  # what another schema says of fitters is unknown
            return [*checks, *self._check_changes(), self._check_fitter(reveal=reveal)]
        except StorageUnavailableError as error:
            return [_unavailable(error, reveal=reveal)]

    def count_queue(self) -> tuple[int, Fitters]:
        """Return how many fits wait, and the fitters that are alive."""
        with self._context.database.reading() as stores:
            return stores.fits.queue_length(), self._context.fitters(stores)

    def fit_activity(self) -> FitActivity:
        """Return what became of the fits that ended in the last hour, and how many have not."""
        now = self._context.now()
        with self._context.database.reading() as stores:
            return stores.diagnosis.fit_activity(now - _RECENT, now)

    def _check_database(self) -> list[Check]:
        """Read the revision, which also detects an emptied database."""
        found = current_revision(self._context.database, only_reads=True)
        needed = head_revision()
        kind = "SQLite" if self._context.database.is_sqlite else "PostgreSQL"
        detail = f"revision {found or 'none'}" + ("" if found == needed else f", needed {needed}")
        remedy = "Run `trainfare migrate`, or the matching version of the service."
        return [
            Check("database", is_ok=True, detail=f"{kind} answers"),
            Check("schema", is_ok=found == needed, detail=detail, remedy=remedy),
        ]

    def _check_changes(self) -> list[Check]:
        """Return a failed check if the database is read-only; no fitter is visible there."""
        with self._context.database.reading() as stores:
            is_read_only = stores.diagnosis.is_read_only()
        detail = "PostgreSQL answers, but is read-only"
        failed = Check("writing", is_ok=False, detail=detail, remedy=_NAME_THE_PRIMARY)
        return [failed] if is_read_only else []

    def _check_fitter(self, *, reveal: bool) -> Check:
        queued, fitters = self.count_queue()
        reason = f" ({fitters.waits_for})" if reveal and fitters.waits_for else ""
        waiting = f", {fitters.waiting} of them waiting for Ray{reason}" if fitters.waiting else ""
        return Check(
            "fitter",
            is_ok=fitters.obstacle() is None,
            detail=f"{say_count(fitters.alive, 'fitter')} alive{waiting},"
            f" {say_count(queued, 'fit')} waiting",
            remedy=_START_RAY if fitters.waiting else _START_A_FITTER,
        )
