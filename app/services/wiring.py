"""Makes all services of one process and knows how they depend on each other."""

from dataclasses import dataclass, replace

from app.domain.exchange_rates import ExchangeRate
from app.domain.grid_factors import GridFactor
from app.domain.identifiers import ExchangeRateId, GridFactorId
from app.pricing.gpus import canonical_gpu_name
from app.services.access import AccessService
from app.services.accuracy import AccuracyService
from app.services.allocations import AllocationService
from app.services.assessments import AssessmentService
from app.services.beliefs import BeliefReader
from app.services.capacity import CapacityService
from app.services.ci_reports import CiReportService
from app.services.context import ServiceContext
from app.services.curves import CurveService
from app.services.dated import DatedFactService
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
from app.services.serving import RegressorCache
from app.services.workloads import WorkloadService
from app.storage.money_tables import ExchangeRateRow, GridFactorRow


@dataclass(frozen=True, slots=True)
class Services:
    """All use cases; the doors hold one instance a process."""

    context: ServiceContext
    workloads: WorkloadService
    uploads: UploadService
    runs: RunService
    fits: FitService
    regressors: RegressorService
    forecasts: ForecastService
    curves: CurveService
    recommendations: RecommendationService
    schedules: ScheduleService
    allocations: AllocationService
    capacity: CapacityService
    remaining: RemainingService
    profiling: ProfilingService
    prices: PriceService
    exchange_rates: DatedFactService[ExchangeRateRow, ExchangeRate]
    grid_factors: DatedFactService[GridFactorRow, GridFactor]
    gpus: GpuService
    accuracy: AccuracyService
    ci: CiReportService
    access: AccessService
    projects: ProjectService
    rates: RequestRates
    idempotency: IdempotencyService
    health: HealthService
    realised: RealisedService
    regressor_cache: RegressorCache

    def close(self) -> None:
        """Write what is still to be noted and release the database connections."""
        self.forecasts.close()
        self.access.close()
        self.context.database.close()


def build_services(context: ServiceContext) -> Services:
    """Return the services of one process."""
    prices = PriceService(context)
    cache = RegressorCache(context)
    ledger = LedgerWriter(context)
    beliefs = BeliefReader(cache, prices)
    assessments = AssessmentService(context, cache)
    uploads = UploadService(context, canonical_gpu_name, assessments)
    forecasts = ForecastService(context, cache, prices, ledger)
    return Services(
        context=context,
        workloads=WorkloadService(context),
        uploads=uploads,
        runs=RunService(context, canonical_gpu_name, assessments),
        fits=FitService(context),
        regressors=RegressorService(context),
        forecasts=forecasts,
        curves=CurveService(context, forecasts),
        schedules=ScheduleService(context, beliefs),
        allocations=AllocationService(context, beliefs),
        capacity=CapacityService(context, beliefs),
        remaining=RemainingService(context, cache, beliefs),
        recommendations=RecommendationService(context, cache, prices),
        profiling=ProfilingService(context, cache, prices),
        prices=prices,
        exchange_rates=DatedFactService(
            context,
            kind="exchange_rate",
            prefix="rate",
            store=lambda stores: stores.exchange_rates,
            name=lambda rate, key: replace(rate, rate_id=ExchangeRateId(key)),
            forget=prices.forget,
        ),
        grid_factors=DatedFactService(
            context,
            kind="grid_factor",
            prefix="grid",
            store=lambda stores: stores.grid_factors,
            name=lambda factor, key: replace(factor, factor_id=GridFactorId(key)),
            forget=prices.forget,
        ),
        gpus=GpuService(context),
        accuracy=AccuracyService(context, cache, ledger),
        ci=CiReportService(context, uploads, cache, prices),
        access=AccessService(context),
        projects=ProjectService(context),
        rates=RequestRates(context),
        idempotency=IdempotencyService(context),
        health=HealthService(context),
        realised=RealisedService(context),
        regressor_cache=cache,
    )
