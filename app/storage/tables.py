"""The ORM rows and every constraint that must hold under concurrency."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from app.domain.configurations import Purchase
from app.domain.fits import FitState
from app.domain.runs import RunStatus
from app.domain.workloads import ParameterType, Pooling, RefitMode
from app.storage.types import BIG_ID, JSON_DOCUMENT, ExactDecimal, UtcDateTime

Json = dict[str, Any]


def _one_of(column: str, values: list[str]) -> str:
    listed = ", ".join(f"'{value}'" for value in values)
    return f"{column} IN ({listed})"


class Base(DeclarativeBase):
    """Base of all rows; one convention names constraints, so that migrations can refer to them."""

    metadata = sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class ProjectRow(Base):
    """A tenant."""

    __tablename__ = "project"

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(100), unique=True)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    max_runs: Mapped[int | None] = mapped_column(sa.BigInteger)
    max_workloads: Mapped[int | None] = mapped_column(sa.Integer)
    max_fits_per_day: Mapped[int | None] = mapped_column(sa.Integer)
    max_queued_fits: Mapped[int | None] = mapped_column(sa.Integer)
    requests_per_minute: Mapped[int | None] = mapped_column(sa.Integer)
    runs_stored: Mapped[int | None] = mapped_column(sa.BigInteger)
    """Kept only while runs are limited: counting millions at each upload would cost more."""


class ApiKeyRow(Base):
    """A key of a project; only the SHA-256 of the secret is stored."""

    __tablename__ = "api_key"

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id", ondelete="CASCADE"))
    name: Mapped[str] = mapped_column(sa.String(100))
    secret_sha256: Mapped[str] = mapped_column(sa.String(64), unique=True)
    scopes: Mapped[list[str]] = mapped_column(JSON_DOCUMENT)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    revoked_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_used_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class WorkloadRow(Base):
    """A workload of a project."""

    __tablename__ = "workload"
    __table_args__ = (
        sa.UniqueConstraint("project_id", "slug"),
        sa.Index("ix_workload_project_id_id", "project_id", "id"),
        sa.CheckConstraint(_one_of("pooling", list(Pooling)), name="pooling_known"),
        sa.CheckConstraint(_one_of("refit_mode", list(RefitMode)), name="refit_mode_known"),
        sa.CheckConstraint("refit_min_new_runs >= 1", name="refit_min_new_runs_positive"),
        sa.CheckConstraint("refit_max_age_s > 0", name="refit_max_age_positive"),
        # Otherwise SQLite reuses the id of a deleted row, and processes would take what they
        # remember of the deleted workload for the new one's.
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=True)
    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id", ondelete="CASCADE"))
    slug: Mapped[str] = mapped_column(sa.String(100))
    description: Mapped[str] = mapped_column(sa.Text, default="")
    dataset_unit: Mapped[str | None] = mapped_column(sa.String(40))
    currency: Mapped[str] = mapped_column(sa.String(3), default="USD")
    labels: Mapped[dict[str, str]] = mapped_column(JSON_DOCUMENT, default=dict)
    refit_mode: Mapped[str] = mapped_column(sa.String(10), default=RefitMode.MANUAL.value)
    refit_min_new_runs: Mapped[int] = mapped_column(sa.Integer, default=1)
    refit_max_age_s: Mapped[float | None] = mapped_column(sa.Double)
    pooling: Mapped[str] = mapped_column(sa.String(10), default=Pooling.PROJECT.value)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class WorkloadParameterRow(Base):
    """A parameter's type, fixed by its declaration or first use."""

    __tablename__ = "workload_parameter"
    __table_args__ = (sa.CheckConstraint(_one_of("type", list(ParameterType)), name="type_known"),)

    workload_id: Mapped[int] = mapped_column(
        sa.ForeignKey("workload.id", ondelete="CASCADE"), primary_key=True
    )
    name: Mapped[str] = mapped_column(sa.String(100), primary_key=True)
    type: Mapped[str] = mapped_column(sa.String(10))
    unit: Mapped[str | None] = mapped_column(sa.String(40))


class RunRow(Base):
    """A measured run; NULL means unknown or not applicable."""

    __tablename__ = "run"
    __table_args__ = (
        sa.UniqueConstraint("workload_id", "external_id"),
        sa.Index("ix_run_workload_id_id", "workload_id", "id"),
        # Partial, as that of active fits: see `run_conditions.IS_UNUSABLE`.
        sa.Index("ix_run_unusable", "workload_id", "id"),
        sa.CheckConstraint(_one_of("status", list(RunStatus)), name="status_known"),
        sa.CheckConstraint(_one_of("purchase", list(Purchase)), name="purchase_known"),
        sa.CheckConstraint(
            "duration_seconds > 0 AND duration_seconds < 1e12", name="duration_positive"
        ),
        sa.CheckConstraint("progress >= 0 AND progress <= 1", name="progress_is_share"),
        sa.CheckConstraint("workers >= 1", name="workers_positive"),
        sa.CheckConstraint("nodes >= 1", name="nodes_positive"),
        sa.CheckConstraint("dataset_size > 0", name="dataset_size_positive"),
        sa.CheckConstraint("batch_size > 0", name="batch_size_positive"),
        sa.CheckConstraint("epochs > 0", name="epochs_positive"),
        sa.CheckConstraint(
            "(cost_amount IS NULL) = (cost_currency IS NULL)", name="cost_has_currency"
        ),
        sa.CheckConstraint("CAST(cost_amount AS NUMERIC) >= 0", name="cost_not_negative"),
        sa.CheckConstraint("excluded_reason IS NULL OR excluded", name="reason_needs_exclusion"),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    workload_id: Mapped[int] = mapped_column(sa.ForeignKey("workload.id", ondelete="CASCADE"))
    external_id: Mapped[str | None] = mapped_column(sa.String(200))
    content_sha256: Mapped[str] = mapped_column(sa.String(64))
    status: Mapped[str] = mapped_column(sa.String(20))
    duration_seconds: Mapped[float] = mapped_column(sa.Double)
    progress: Mapped[float | None] = mapped_column(sa.Double)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    gpu_type: Mapped[str | None] = mapped_column(sa.String(100))
    instance_type: Mapped[str | None] = mapped_column(sa.String(100))
    provider: Mapped[str | None] = mapped_column(sa.String(100))
    region: Mapped[str | None] = mapped_column(sa.String(100))
    purchase: Mapped[str | None] = mapped_column(sa.String(10))
    nodes: Mapped[int | None] = mapped_column(sa.Integer)
    workers: Mapped[int] = mapped_column(sa.Integer)
    dataset_size: Mapped[float | None] = mapped_column(sa.Double)
    batch_size: Mapped[float | None] = mapped_column(sa.Double)
    epochs: Mapped[float | None] = mapped_column(sa.Double)
    cost_amount: Mapped[Decimal | None] = mapped_column(ExactDecimal)
    cost_currency: Mapped[str | None] = mapped_column(sa.String(3))
    parameters: Mapped[Json | None] = mapped_column(JSON_DOCUMENT)
    phases: Mapped[Json | None] = mapped_column(JSON_DOCUMENT)
    resources: Mapped[Json | None] = mapped_column(JSON_DOCUMENT)
    labels: Mapped[Json | None] = mapped_column(JSON_DOCUMENT)
    forecast_id: Mapped[str | None] = mapped_column(sa.String(40), index=True)
    excluded: Mapped[bool] = mapped_column(sa.Boolean, default=False)
    excluded_reason: Mapped[str | None] = mapped_column(sa.Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class FitRow(Base):
    """A fit and its lease; the partial unique index allows one active fit per workload."""

    __tablename__ = "fit"
    __table_args__ = (
        # The migration makes it partial: where state IN ('queued', 'running'). Saying so here would
        # import the dialects of both databases into every process, and nothing would read it.
        sa.Index("uq_fit_active_workload", "workload_id", unique=True),
        sa.Index("ix_fit_workload_id_id", "workload_id", "id"),
        sa.Index("ix_fit_state_requested_at", "state", "requested_at"),
        sa.Index("ix_fit_ended_at", "ended_at"),
        sa.CheckConstraint(_one_of("state", list(FitState)), name="state_known"),
        sa.CheckConstraint("progress >= 0 AND progress <= 1", name="progress_is_share"),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    workload_id: Mapped[int] = mapped_column(sa.ForeignKey("workload.id", ondelete="CASCADE"))
    state: Mapped[str] = mapped_column(sa.String(10))
    request: Mapped[Json] = mapped_column(JSON_DOCUMENT)
    progress: Mapped[float] = mapped_column(sa.Double, default=0.0)
    step: Mapped[str | None] = mapped_column(sa.String(200))
    requested_at: Mapped[datetime] = mapped_column(UtcDateTime)
    started_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    seen_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    unseen_run_id: Mapped[str | None] = mapped_column(sa.String(40))
    ended_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    attempts: Mapped[int] = mapped_column(sa.Integer, default=0)
    candidates: Mapped[list[Json] | None] = mapped_column(JSON_DOCUMENT)
    regressor_version: Mapped[int | None] = mapped_column(sa.Integer)
    published: Mapped[bool | None] = mapped_column(sa.Boolean)
    problem: Mapped[Json | None] = mapped_column(JSON_DOCUMENT)
    cancel_requested: Mapped[bool] = mapped_column(sa.Boolean, default=False)
    lease_owner: Mapped[str | None] = mapped_column(sa.String(100))
    lease_token: Mapped[str | None] = mapped_column(sa.String(40))
    lease_expires_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    trace_parent: Mapped[str | None] = mapped_column(sa.String(55))


class RegressorRow(Base):
    """An immutable regressor version: its registry entry and its artefact (data, no pickle).

    The artefact is empty once removed as old; its digest and size are kept.
    """

    __tablename__ = "regressor"
    __table_args__ = (
        sa.CheckConstraint("version >= 1", name="version_positive"),
        # Finds formats without reading past the artefacts.
        sa.Index(None, "workload_id", "version", "format_version"),
    )

    workload_id: Mapped[int] = mapped_column(
        sa.ForeignKey("workload.id", ondelete="CASCADE"), primary_key=True
    )
    version: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    fit_id: Mapped[str] = mapped_column(sa.String(40))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    artifact: Mapped[bytes] = mapped_column(sa.LargeBinary, deferred=True)
    artifact_sha256: Mapped[str] = mapped_column(sa.String(64))
    artifact_bytes: Mapped[int] = mapped_column(sa.Integer)
    report: Mapped[Json] = mapped_column(JSON_DOCUMENT)
    summary: Mapped[Json | None] = mapped_column(JSON_DOCUMENT, deferred=True)
    format_version: Mapped[int] = mapped_column(sa.Integer, server_default="10")


class PublicationRow(Base):
    """Which version of a workload's regressor answers forecasts."""

    __tablename__ = "publication"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["workload_id", "version"],
            ["regressor.workload_id", "regressor.version"],
            ondelete="CASCADE",
        ),
    )

    workload_id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=False)
    version: Mapped[int] = mapped_column(sa.Integer)
    published_at: Mapped[datetime] = mapped_column(UtcDateTime)


class PublicationEventRow(Base):
    """When a version began to answer forecasts; never changed."""

    __tablename__ = "publication_event"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["workload_id", "version"],
            ["regressor.workload_id", "regressor.version"],
            ondelete="CASCADE",
        ),
        sa.Index("ix_publication_event_workload_id_id", "workload_id", "id"),
    )

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=True)
    workload_id: Mapped[int] = mapped_column(BIG_ID)
    version: Mapped[int] = mapped_column(sa.Integer)
    published_at: Mapped[datetime] = mapped_column(UtcDateTime)


class ForecastRow(Base):
    """The ledger: questions and answers; indexed by time, so that appends stay together."""

    __tablename__ = "forecast"
    __table_args__ = (
        sa.Index(
            "ix_forecast_workload_id_id_scenario_sha256", "workload_id", "id", "scenario_sha256"
        ),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    workload_id: Mapped[int] = mapped_column(sa.ForeignKey("workload.id", ondelete="CASCADE"))
    regressor_version: Mapped[int] = mapped_column(sa.Integer)
    scenario_sha256: Mapped[str | None] = mapped_column(sa.String(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    request: Mapped[Json] = mapped_column(JSON_DOCUMENT)
    answer: Mapped[Json] = mapped_column(JSON_DOCUMENT)


class CiReportRow(Base):
    """A report of a CI system as it was answered, and what happened to it since."""

    __tablename__ = "ci_report"
    __table_args__ = (sa.Index("ix_ci_report_project_id_id", "project_id", "id"),)

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id", ondelete="CASCADE"))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    document: Mapped[Json] = mapped_column(JSON_DOCUMENT)
    acknowledged_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    acknowledged_by: Mapped[str | None] = mapped_column(sa.String(200))
    acknowledged_reason: Mapped[str | None] = mapped_column(sa.Text)
    promoted_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class BaselineRow(Base):
    """The instant since which a workload's durations count as normal, as acknowledged."""

    __tablename__ = "baseline"
    __table_args__ = (sa.Index("ix_baseline_workload_id_id", "workload_id", "id"),)

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=True)
    workload_id: Mapped[int] = mapped_column(sa.ForeignKey("workload.id", ondelete="CASCADE"))
    since: Mapped[datetime] = mapped_column(UtcDateTime)
    author: Mapped[str] = mapped_column(sa.String(200))
    reason: Mapped[str] = mapped_column(sa.Text)
    report_id: Mapped[str] = mapped_column(sa.String(40))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class PriceRow(Base):
    """A project's own price; withdrawn, never deleted, so that past costs stay explainable."""

    __tablename__ = "price"
    __table_args__ = (
        sa.Index("ix_price_project_id_id", "project_id", "id"),
        sa.CheckConstraint("CAST(price_per_hour AS NUMERIC) >= 0", name="price_not_negative"),
        sa.CheckConstraint("gpu_count >= 0", name="gpu_count_not_negative"),
        sa.CheckConstraint(_one_of("purchase", list(Purchase)), name="purchase_known"),
        sa.CheckConstraint(
            "instance_type IS NOT NULL OR gpu_type IS NOT NULL", name="names_what_is_priced"
        ),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    project_id: Mapped[str] = mapped_column(sa.ForeignKey("project.id", ondelete="CASCADE"))
    provider: Mapped[str | None] = mapped_column(sa.String(100))
    region: Mapped[str | None] = mapped_column(sa.String(100))
    instance_type: Mapped[str | None] = mapped_column(sa.String(100))
    gpu_type: Mapped[str | None] = mapped_column(sa.String(100))
    gpu_count: Mapped[int | None] = mapped_column(sa.Integer)
    price_per_hour: Mapped[Decimal] = mapped_column(ExactDecimal)
    minimum_billed_s: Mapped[int | None] = mapped_column(sa.Integer)
    billing_step_s: Mapped[int | None] = mapped_column(sa.Integer)
    serverless: Mapped[Json | None] = mapped_column(JSON_DOCUMENT)
    purchase: Mapped[str] = mapped_column(sa.String(10))
    currency: Mapped[str] = mapped_column(sa.String(3))
    valid_from: Mapped[datetime] = mapped_column(UtcDateTime)
    source: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    withdrawn_at: Mapped[datetime | None] = mapped_column(UtcDateTime)


class IdempotencyRow(Base):
    """The first answer to a POST with an idempotency key; `status` is NULL until it has ended."""

    __tablename__ = "idempotency"

    project_id: Mapped[str] = mapped_column(
        sa.ForeignKey("project.id", ondelete="CASCADE"), primary_key=True
    )
    path: Mapped[str] = mapped_column(sa.String(300), primary_key=True)
    key: Mapped[str] = mapped_column(sa.String(255), primary_key=True)
    body_sha256: Mapped[str] = mapped_column(sa.String(64))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime, index=True)
    fence: Mapped[str] = mapped_column(sa.String(32))
    locked_until: Mapped[datetime] = mapped_column(UtcDateTime)
    status: Mapped[int | None] = mapped_column(sa.Integer)
    headers: Mapped[Json | None] = mapped_column(JSON_DOCUMENT)
    body: Mapped[bytes | None] = mapped_column(sa.LargeBinary)


class AuditRow(Base):
    """Who changed what: exclusions, deletions, publications, keys, prices."""

    __tablename__ = "audit"
    __table_args__ = (sa.Index("ix_audit_project_id_id", "project_id", "id"),)

    id: Mapped[int] = mapped_column(BIG_ID, primary_key=True, autoincrement=True)
    project_id: Mapped[str] = mapped_column(sa.String(40))
    key_id: Mapped[str | None] = mapped_column(sa.String(40))
    at: Mapped[datetime] = mapped_column(UtcDateTime)
    action: Mapped[str] = mapped_column(sa.String(60))
    subject: Mapped[str] = mapped_column(sa.String(200))
    detail: Mapped[Json | None] = mapped_column(JSON_DOCUMENT)


class FitterRow(Base):
    """A fitter process, when it was last heard of, and what it waits for (None: nothing)."""

    __tablename__ = "fitter"

    id: Mapped[str] = mapped_column(sa.String(100), primary_key=True)
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    seen_at: Mapped[datetime] = mapped_column(UtcDateTime)
    waits_for: Mapped[str | None] = mapped_column(sa.String(300))
