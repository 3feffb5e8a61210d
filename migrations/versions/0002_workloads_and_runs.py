"""Create workloads, their parameters and runs."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from app.storage.types import BIG_ID, JSON_DOCUMENT, ExactDecimal, UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _create_workload() -> None:
    op.create_table(
        "workload",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("slug", sa.String(length=100), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("dataset_unit", sa.String(length=40), nullable=True),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("labels", JSON_DOCUMENT, nullable=False),
        sa.Column("refit_mode", sa.String(length=10), nullable=False),
        sa.Column("refit_min_new_runs", sa.Integer(), nullable=False),
        sa.Column("refit_max_age_s", sa.Double(), nullable=True),
        sa.Column("pooling", sa.String(length=10), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.CheckConstraint(
            "pooling IN ('project', 'factory', 'off')", name=op.f("ck_workload_pooling_known")
        ),
        sa.CheckConstraint(
            "refit_mode IN ('manual', 'auto')", name=op.f("ck_workload_refit_mode_known")
        ),
        sa.CheckConstraint("refit_max_age_s > 0", name=op.f("ck_workload_refit_max_age_positive")),
        sa.CheckConstraint(
            "refit_min_new_runs >= 1", name=op.f("ck_workload_refit_min_new_runs_positive")
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
            name=op.f("fk_workload_project_id_project"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_workload")),
        sa.UniqueConstraint("project_id", "slug", name=op.f("uq_workload_project_id_slug")),
        sqlite_autoincrement=True,
    )


def _create_workload_parameter() -> None:
    op.create_table(
        "workload_parameter",
        sa.Column("workload_id", BIG_ID, nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("type", sa.String(length=10), nullable=False),
        sa.Column("unit", sa.String(length=40), nullable=True),
        sa.CheckConstraint(
            "type IN ('number', 'category')", name=op.f("ck_workload_parameter_type_known")
        ),
        sa.ForeignKeyConstraint(
            ["workload_id"],
            ["workload.id"],
            name=op.f("fk_workload_parameter_workload_id_workload"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workload_id", "name", name=op.f("pk_workload_parameter")),
    )


def _run_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("workload_id", BIG_ID, nullable=False),
        sa.Column("external_id", sa.String(length=200), nullable=True),
        sa.Column("content_sha256", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("duration_seconds", sa.Double(), nullable=False),
        sa.Column("progress", sa.Double(), nullable=True),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("gpu_type", sa.String(length=100), nullable=True),
        sa.Column("instance_type", sa.String(length=100), nullable=True),
        sa.Column("provider", sa.String(length=100), nullable=True),
        sa.Column("region", sa.String(length=100), nullable=True),
        sa.Column("purchase", sa.String(length=10), nullable=True),
        sa.Column("nodes", sa.Integer(), nullable=True),
        sa.Column("workers", sa.Integer(), nullable=False),
        sa.Column("dataset_size", sa.Double(), nullable=True),
        sa.Column("batch_size", sa.Double(), nullable=True),
        sa.Column("epochs", sa.Double(), nullable=True),
        sa.Column("cost_amount", ExactDecimal(), nullable=True),
        sa.Column("cost_currency", sa.String(length=3), nullable=True),
        sa.Column("parameters", JSON_DOCUMENT, nullable=True),
        sa.Column("phases", JSON_DOCUMENT, nullable=True),
        sa.Column("resources", JSON_DOCUMENT, nullable=True),
        sa.Column("labels", JSON_DOCUMENT, nullable=True),
        sa.Column("forecast_id", sa.String(length=40), nullable=True),
        sa.Column("excluded", sa.Boolean(), nullable=False),
        sa.Column("excluded_reason", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
    ]


def _run_constraints() -> list[sa.Constraint]:
    return [
        sa.CheckConstraint(
            "purchase IN ('on_demand', 'spot', 'reserved', 'owned')",
            name=op.f("ck_run_purchase_known"),
        ),
        sa.CheckConstraint(
            "status IN ('succeeded', 'failed', 'out_of_memory', 'preempted', 'timed_out',"
            " 'cancelled')",
            name=op.f("ck_run_status_known"),
        ),
        sa.CheckConstraint(
            "(cost_amount IS NULL) = (cost_currency IS NULL)", name=op.f("ck_run_cost_has_currency")
        ),
        sa.CheckConstraint(
            "CAST(cost_amount AS NUMERIC) >= 0", name=op.f("ck_run_cost_not_negative")
        ),
        sa.CheckConstraint("batch_size > 0", name=op.f("ck_run_batch_size_positive")),
        sa.CheckConstraint("dataset_size > 0", name=op.f("ck_run_dataset_size_positive")),
        sa.CheckConstraint(
            "duration_seconds > 0 AND duration_seconds < 1e12",
            name=op.f("ck_run_duration_positive"),
        ),
        sa.CheckConstraint("epochs > 0", name=op.f("ck_run_epochs_positive")),
        sa.CheckConstraint(
            "excluded_reason IS NULL OR excluded", name=op.f("ck_run_reason_needs_exclusion")
        ),
        sa.CheckConstraint("nodes >= 1", name=op.f("ck_run_nodes_positive")),
        sa.CheckConstraint(
            "progress >= 0 AND progress <= 1", name=op.f("ck_run_progress_is_share")
        ),
        sa.CheckConstraint("workers >= 1", name=op.f("ck_run_workers_positive")),
        sa.ForeignKeyConstraint(
            ["workload_id"],
            ["workload.id"],
            name=op.f("fk_run_workload_id_workload"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run")),
        sa.UniqueConstraint(
            "workload_id", "external_id", name=op.f("uq_run_workload_id_external_id")
        ),
    ]


def _create_run() -> None:
    op.create_table("run", *_run_columns(), *_run_constraints())
    op.create_index("ix_run_forecast_id", "run", ["forecast_id"], unique=False)
    op.create_index("ix_run_workload_id_id", "run", ["workload_id", "id"], unique=False)


def upgrade() -> None:
    _create_workload()
    _create_workload_parameter()
    _create_run()


def downgrade() -> None:
    op.drop_table("run")
    op.drop_table("workload_parameter")
    op.drop_table("workload")
