"""Create the forecast ledger and a project's own prices."""

import sqlalchemy as sa
from alembic import op

from app.storage.types import BIG_ID, JSON_DOCUMENT, ExactDecimal, UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def _create_forecast() -> None:
    op.create_table(
        "forecast",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("workload_id", BIG_ID, nullable=False),
        sa.Column("regressor_version", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("request", JSON_DOCUMENT, nullable=False),
        sa.Column("answer", JSON_DOCUMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_id"],
            ["workload.id"],
            name=op.f("fk_forecast_workload_id_workload"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_forecast")),
    )
    op.create_index("ix_forecast_workload_id_id", "forecast", ["workload_id", "id"], unique=False)


def _create_price() -> None:
    op.create_table(
        "price",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("provider", sa.String(length=100), nullable=True),
        sa.Column("region", sa.String(length=100), nullable=True),
        sa.Column("instance_type", sa.String(length=100), nullable=True),
        sa.Column("gpu_type", sa.String(length=100), nullable=True),
        sa.Column("gpu_count", sa.Integer(), nullable=True),
        sa.Column("price_per_hour", ExactDecimal(), nullable=False),
        sa.Column("purchase", sa.String(length=10), nullable=False),
        sa.Column("currency", sa.String(length=3), nullable=False),
        sa.Column("valid_from", UtcDateTime(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("withdrawn_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint(
            "purchase IN ('on_demand', 'spot', 'reserved', 'owned')",
            name=op.f("ck_price_purchase_known"),
        ),
        sa.CheckConstraint(
            "CAST(price_per_hour AS NUMERIC) >= 0", name=op.f("ck_price_price_not_negative")
        ),
        sa.CheckConstraint("gpu_count >= 0", name=op.f("ck_price_gpu_count_not_negative")),
        sa.CheckConstraint(
            "instance_type IS NOT NULL OR gpu_type IS NOT NULL",
            name=op.f("ck_price_names_what_is_priced"),
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
            name=op.f("fk_price_project_id_project"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_price")),
    )
    op.create_index("ix_price_project_id_id", "price", ["project_id", "id"], unique=False)


def upgrade() -> None:
    _create_forecast()
    _create_price()


def downgrade() -> None:
    op.drop_table("price")
    op.drop_table("forecast")
