"""Makes the services of one process and knows their dependencies.

Each is imported and made when it is first needed: a process that answers lists and makes no
forecast never imports numpy or the regression library, and starts without waiting for them.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Final, Generic, Self, TypeVar, overload

from app.domain.identifiers import ExchangeRateId, GridFactorId, ProjectId, Slug
from app.pricing.gpus import canonical_gpu_name
from app.services.context import ServiceContext

if TYPE_CHECKING:
    from app.domain.exchange_rates import ExchangeRate
    from app.domain.grid_factors import GridFactor
    from app.services.access import AccessService
    from app.services.accuracy import AccuracyService
    from app.services.allocations import AllocationService
    from app.services.assessments import AssessmentService
    from app.services.capacity import CapacityService
    from app.services.ci_reports import CiReportService
    from app.services.curves import CurveService
    from app.services.dated import DatedFactService
    from app.services.diagnosis import DiagnosisService
    from app.services.fits import FitService
    from app.services.forecasts import ForecastService
    from app.services.gpus import GpuService
    from app.services.health import HealthService
    from app.services.idempotency import IdempotencyService
    from app.services.ledger import LedgerWriter
    from app.services.prices import PriceService
    from app.services.profiling import ProfilingService
    from app.services.quotas import ProjectService
    from app.services.rates import RequestRates
    from app.services.realised import RealisedService
    from app.services.recommendations import RecommendationService
    from app.services.regressors import RegressorService
    from app.services.remaining import RemainingService
    from app.services.run_uploads import UploadService
    from app.services.runs import RunService
    from app.services.schedules import ScheduleService
    from app.services.scheduling.beliefs import BeliefReader
    from app.services.serving import RegressorCache
    from app.services.workloads import WorkloadService
    from app.storage.money_tables import ExchangeRateRow, GridFactorRow

Service = TypeVar("Service")


_WATCHING_S: Final = 5.0
"""The time limit of statements for health or metrics, which nobody awaits any longer."""


class Once(Generic[Service]):
    """A service that is made once per process, when it is first needed.

    Unlike `functools.cached_property` it never makes two when two threads ask at the same time.
    """

    def __init__(self, make: Callable[["Services"], Service]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type["Services"], name: str) -> None:
        """Remember the service's attribute name."""
        self._name = name

    @overload
    def __get__(self, services: None, owner: type["Services"]) -> Self: ...

    @overload
    def __get__(self, services: "Services", owner: type["Services"]) -> Service: ...

    def __get__(self, services: "Services | None", owner: type["Services"]) -> Self | Service:
        """Return the service; once made, it is found before this descriptor."""
        if services is None:
            return self
        with services.making:
            made = self.made_by(services)
            if made is None:
                made = services.__dict__[self._name] = self._make(services)
        return made

    def made_by(self, services: "Services") -> Service | None:
        """Return the service if it has been made."""
        made: Service | None = services.__dict__.get(self._name)
        return made


class Services:
    """All use cases; the doors share one instance per process.

    Parameters
    ----------
    context
        The surroundings that every service gets.
    """

    def __init__(self, context: ServiceContext) -> None:
        self.context: Final = context
        self.making: Final = RLock()

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all use cases and of the parts they share."""
        return [name for name, member in vars(cls).items() if isinstance(member, Once)]

    def close(self) -> None:
        """Write what is still to be recorded and release the database connections."""
        closing = (Services.regressor_cache, Services.prices, Services.ledger, Services.access)
        for once in closing:
            if (made := once.made_by(self)) is not None:
                made.close()
        if "_watching" in self.__dict__:
            self._watching.database.close()
        self.context.database.close()

    def _forget_prices(self, project_id: ProjectId) -> None:
        if (prices := Services.prices.made_by(self)) is not None:
            prices.forget(project_id)

    def _expire_regressor(self, project_id: ProjectId, slug: Slug, version: int | None) -> None:
        if (cache := Services.regressor_cache.made_by(self)) is not None:
            cache.expire(project_id, slug, version)

    @Once
    def workloads(self) -> "WorkloadService":
        from app.services.workloads import WorkloadService

        return WorkloadService(self.context, expire=self._expire_regressor)

    @Once
    def uploads(self) -> "UploadService":
        from app.services.run_uploads import UploadService

        return UploadService(self.context, canonical_gpu_name, self.assessments)

    @Once
    def runs(self) -> "RunService":
        from app.services.runs import RunService

        return RunService(self.context, canonical_gpu_name, self.assessments)

    @Once
    def assessments(self) -> "AssessmentService":
        from app.services.assessments import AssessmentService

        return AssessmentService(self.regressor_cache, self.prices)

    @Once
    def fits(self) -> "FitService":
        from app.services.fits import FitService

        return FitService(self.context, expire=self._expire_regressor)

    @Once
    def regressors(self) -> "RegressorService":
        from app.services.regressors import RegressorService

        return RegressorService(self.context, expire=self._expire_regressor)

    @Once
    def regressor_cache(self) -> "RegressorCache":
        from app.services.serving import RegressorCache

        return RegressorCache(self.context)

    @Once
    def ledger(self) -> "LedgerWriter":
        from app.services.ledger import LedgerWriter

        return LedgerWriter(self.context)

    @Once
    def forecasts(self) -> "ForecastService":
        from app.services.forecasts import ForecastService

        return ForecastService(self.context, self.regressor_cache, self.prices, self.ledger)

    @Once
    def curves(self) -> "CurveService":
        from app.services.curves import CurveService

        return CurveService(self.context, self.forecasts, self.prices)

    @Once
    def beliefs(self) -> "BeliefReader":
        from app.services.scheduling.beliefs import BeliefReader

        return BeliefReader(self.regressor_cache, self.prices)

    @Once
    def schedules(self) -> "ScheduleService":
        from app.services.schedules import ScheduleService

        return ScheduleService(self.context, self.beliefs)

    @Once
    def allocations(self) -> "AllocationService":
        from app.services.allocations import AllocationService

        return AllocationService(self.context, self.beliefs)

    @Once
    def capacity(self) -> "CapacityService":
        from app.services.capacity import CapacityService

        return CapacityService(self.context, self.beliefs)

    @Once
    def remaining(self) -> "RemainingService":
        from app.services.remaining import RemainingService

        return RemainingService(self.context, self.regressor_cache, self.prices, self.beliefs)

    @Once
    def recommendations(self) -> "RecommendationService":
        from app.services.recommendations import RecommendationService

        return RecommendationService(self.context, self.regressor_cache, self.prices)

    @Once
    def profiling(self) -> "ProfilingService":
        from app.services.profiling import ProfilingService

        return ProfilingService(self.context, self.regressor_cache, self.prices)

    @Once
    def prices(self) -> "PriceService":
        from app.services.prices import PriceService

        return PriceService(self.context)

    @Once
    def exchange_rates(self) -> "DatedFactService[ExchangeRateRow, ExchangeRate]":
        from app.services.dated import DatedFactService

        return DatedFactService(
            self.context,
            kind="exchange_rate",
            prefix="rate",
            store=lambda stores: stores.exchange_rates,
            name=lambda rate, key: replace(rate, rate_id=ExchangeRateId(key)),
            forget=self._forget_prices,
        )

    @Once
    def grid_factors(self) -> "DatedFactService[GridFactorRow, GridFactor]":
        from app.services.dated import DatedFactService

        return DatedFactService(
            self.context,
            kind="grid_factor",
            prefix="grid",
            store=lambda stores: stores.grid_factors,
            name=lambda factor, key: replace(factor, factor_id=GridFactorId(key)),
            forget=self._forget_prices,
        )

    @Once
    def gpus(self) -> "GpuService":
        from app.services.gpus import GpuService

        return GpuService(self.context)

    @Once
    def accuracy(self) -> "AccuracyService":
        from app.services.accuracy import AccuracyService

        return AccuracyService(self.context, self.regressor_cache, self.prices, self.ledger)

    @Once
    def ci(self) -> "CiReportService":
        from app.services.ci_reports import CiReportService

        return CiReportService(self.context, self.uploads, self.regressor_cache, self.prices)

    @Once
    def access(self) -> "AccessService":
        from app.services.access import AccessService

        return AccessService(self.context)

    @Once
    def projects(self) -> "ProjectService":
        from app.services.quotas import ProjectService

        return ProjectService(self.context)

    @Once
    def rates(self) -> "RequestRates":
        from app.services.rates import RequestRates

        return RequestRates(self.context)

    @Once
    def idempotency(self) -> "IdempotencyService":
        from app.services.idempotency import IdempotencyService

        return IdempotencyService(self.context)

    @Once
    def health(self) -> "HealthService":
        from app.services.health import HealthService

        return HealthService(self.context)

    @cached_property
    def _watching(self) -> ServiceContext:
        """Surroundings usable while all connections are in use; made under the lock `making`."""
        separate = self.context.database.with_own_connection(_WATCHING_S)
        return replace(self.context, database=separate)

    @Once
    def watching_health(self) -> "HealthService":
        from app.services.health import HealthService

        return HealthService(self._watching)

    @Once
    def diagnosis(self) -> "DiagnosisService":
        from app.services.diagnosis import DiagnosisService

        return DiagnosisService(self.context, self.health)

    @Once
    def realised(self) -> "RealisedService":
        from app.services.realised import RealisedService

        return RealisedService(self._watching)
