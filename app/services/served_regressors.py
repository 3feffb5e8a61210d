"""Loads regressors from the database."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from app.domain import deadlines
from app.domain.errors import RegressorUnavailableError
from app.domain.identifiers import ProjectId, Slug, WorkloadId
from app.pricing.energy import MeasuredPowers
from app.services.refused_regressors import no_regressor
from app.services.workload_names import unknown_workload
from app.storage.stores import Stores
from models import (
    ArtifactError,
    FeatureTable,
    FittedPortfolio,
    ForecastDistribution,
    Inquiry,
    loads,
)


@dataclass(frozen=True, slots=True)
class ServedRegressor:
    """A regressor in memory, with its workload's currency and the power that its runs measured.

    Its fit has seen the runs stored or included until `seen_until`, and none that came while it
    was computed. `is_stale` if the database could not be asked for a newer one.
    """

    workload: Slug
    workload_id: WorkloadId
    version: int
    fitted_at: datetime
    seen_until: datetime
    portfolio: FittedPortfolio
    is_stale: bool = False
    currency: str = "USD"
    power: MeasuredPowers = field(default_factory=dict)
    artifact_bytes: int = 0

    @property
    def gpu_types(self) -> tuple[str, ...] | None:
        """The GPU types that it knows, None if it was fitted without any."""
        return self.portfolio.report.category_levels.get("gpu_type")

    def ask(self, features: FeatureTable) -> tuple[Inquiry, ForecastDistribution]:
        """Return the answers to questions, each computed when needed, and their forecasts.

        Raises
        ------
        RegressorUnavailableError
            If a forecast is not finite: the artefact is forged or damaged.
        DeadlineExceededError
            If the time of the request has run out.
        """
        deadlines.require_time()
        inquiry = self.portfolio.ask(features)
        try:
            return inquiry, inquiry.forecast
        except ArtifactError as error:
            raise RegressorUnavailableError(self.workload, self.version, str(error)) from error

    def predict(self, features: FeatureTable) -> ForecastDistribution:
        """Return the forecasts of questions, shape (n_rows,); refuses as `ask` does."""
        return self.ask(features)[1]


def load_unpublished(
    stores: Stores, project_id: ProjectId, slug: Slug, version: int | None
) -> ServedRegressor:
    """Return the named version of a workload that has no published one.

    Raises
    ------
    UnknownWorkloadError
        If the project has no such workload.
    NoRegressorError
        If no version is named.
    NotFoundError, RegressorUnavailableError
        As `load_version`.
    """
    workload = stores.workloads.get(project_id, slug)
    if workload is None:
        raise unknown_workload(stores, project_id, slug)
    if version is not None:
        served = load_version(stores, slug, workload.workload_id, version)
        return in_currency(served, workload.declaration.currency)
    n_usable = stores.runs.count_usable(workload.workload_id)
    raise no_regressor(slug, n_usable, stores.fits.active(workload.workload_id))


def in_currency(served: ServedRegressor, currency: str) -> ServedRegressor:
    """Return a regressor of a workload in a currency."""
    return served if served.currency == currency else replace(served, currency=currency)


def load_version(
    stores: Stores,
    slug: Slug,
    workload_id: WorkloadId,
    version: int,
    power: MeasuredPowers | None = None,
) -> ServedRegressor:
    """Return a version of a workload's regressor.

    `power` is what the workload's runs measured, where it was read already.

    Raises
    ------
    NotFoundError
        If the workload has no such version.
    RegressorUnavailableError
        If the artefact cannot be used.
    """
    stored = stores.regressors.load_artifact(workload_id, version)
    try:
        portfolio = loads(stored.data)
    except ArtifactError as error:
        raise RegressorUnavailableError(slug, version, str(error)) from error
    if power is None:
        power = stores.runs.measured_power(workload_id)
    return ServedRegressor(
        slug,
        workload_id,
        version,
        stored.created_at,
        stored.seen_until,
        portfolio,
        power=power,
        artifact_bytes=len(stored.data),
    )
