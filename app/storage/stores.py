"""All stores on one session, as `Database.transaction` yields them."""

from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from app.storage.access import AccessStore
from app.storage.artifacts import ArtifactStore
from app.storage.ci import CiStore
from app.storage.dated import ExchangeRateStore, GridFactorStore
from app.storage.fits import FitStore
from app.storage.forecasts import ForecastStore
from app.storage.idempotency import IdempotencyStore
from app.storage.leases import LeaseStore
from app.storage.prices import PriceStore
from app.storage.quotas import QuotaStore
from app.storage.regressors import RegressorStore
from app.storage.run_counts import RunCountStore
from app.storage.runs import RunStore
from app.storage.workloads import WorkloadStore

if TYPE_CHECKING:
    from app.storage.diagnosis import DiagnosisStore
    from app.storage.dumps import DumpStore
    from app.storage.removal import RemovalStore
    from app.storage.summaries import SummaryStore


class Stores:
    """The stores of one transaction."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.access = AccessStore(session)
        self.quotas = QuotaStore(session)
        self.workloads = WorkloadStore(session)
        self.runs = RunStore(session)
        self.run_counts = RunCountStore(session)
        self.fits = FitStore(session)
        self.leases = LeaseStore(session)
        self.regressors = RegressorStore(session)
        self.artifacts = ArtifactStore(session)
        self.forecasts = ForecastStore(session)
        self.prices = PriceStore(session)
        self.exchange_rates = ExchangeRateStore(session)
        self.grid_factors = GridFactorStore(session)
        self.ci = CiStore(session)
        self.idempotency = IdempotencyStore(session)

    # Few processes use the following: the others spare their memory.

    @property
    def diagnosis(self) -> "DiagnosisStore":
        """What `trainfare doctor` reads."""
        from app.storage.diagnosis import DiagnosisStore  # noqa: PLC0415

        return DiagnosisStore(self._session)

    @property
    def dumps(self) -> "DumpStore":
        """Whole tables, for backups."""
        from app.storage.dumps import DumpStore  # noqa: PLC0415

        return DumpStore(self._session)

    @property
    def removal(self) -> "RemovalStore":
        """Workloads and projects with all they have, part by part."""
        from app.storage.removal import RemovalStore  # noqa: PLC0415

        return RemovalStore(self._session)

    @property
    def summaries(self) -> "SummaryStore":
        """What workloads contribute to the priors of others, for fitters."""
        from app.storage.summaries import SummaryStore  # noqa: PLC0415

        return SummaryStore(self._session)
