"""Create fits, fitters, regressor versions and their publication."""

import sqlalchemy as sa
from alembic import op

from app.storage.types import BIG_ID, JSON_DOCUMENT, UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _create_fit() -> None:
    op.create_table(
        "fit",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("workload_id", BIG_ID, nullable=False),
        sa.Column("state", sa.String(length=10), nullable=False),
        sa.Column("request", JSON_DOCUMENT, nullable=False),
        sa.Column("progress", sa.Double(), nullable=False),
        sa.Column("step", sa.String(length=200), nullable=True),
        sa.Column("requested_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("candidates", JSON_DOCUMENT, nullable=True),
        sa.Column("regressor_version", sa.Integer(), nullable=True),
        sa.Column("published", sa.Boolean(), nullable=True),
        sa.Column("problem", JSON_DOCUMENT, nullable=True),
        sa.Column("cancel_requested", sa.Boolean(), nullable=False),
        sa.Column("lease_owner", sa.String(length=100), nullable=True),
        sa.Column("lease_token", sa.String(length=40), nullable=True),
        sa.Column("lease_expires_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled')",
            name=op.f("ck_fit_state_known"),
        ),
        sa.CheckConstraint(
            "progress >= 0 AND progress <= 1", name=op.f("ck_fit_progress_is_share")
        ),
        sa.ForeignKeyConstraint(
            ["workload_id"],
            ["workload.id"],
            name=op.f("fk_fit_workload_id_workload"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fit")),
    )
    op.create_index("ix_fit_state_requested_at", "fit", ["state", "requested_at"], unique=False)
    op.create_index("ix_fit_workload_id_id", "fit", ["workload_id", "id"], unique=False)
    op.create_index(
        "uq_fit_active_workload",
        "fit",
        ["workload_id"],
        unique=True,
        sqlite_where=sa.text("state IN ('queued', 'running')"),
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )


def _create_fitter() -> None:
    op.create_table(
        "fitter",
        sa.Column("id", sa.String(length=100), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fitter")),
    )


def _create_regressor() -> None:
    op.create_table(
        "regressor",
        sa.Column("workload_id", BIG_ID, nullable=False),
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("fit_id", sa.String(length=40), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("artifact", sa.LargeBinary(), nullable=False),
        sa.Column("artifact_sha256", sa.String(length=64), nullable=False),
        sa.Column("artifact_bytes", sa.Integer(), nullable=False),
        sa.Column("report", JSON_DOCUMENT, nullable=False),
        sa.CheckConstraint("version >= 1", name=op.f("ck_regressor_version_positive")),
        sa.ForeignKeyConstraint(
            ["workload_id"],
            ["workload.id"],
            name=op.f("fk_regressor_workload_id_workload"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workload_id", "version", name=op.f("pk_regressor")),
    )


def _create_publication() -> None:
    op.create_table(
        "publication",
        sa.Column("workload_id", BIG_ID, autoincrement=False, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("published_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_id", "version"],
            ["regressor.workload_id", "regressor.version"],
            name=op.f("fk_publication_workload_id_version_regressor"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workload_id", name=op.f("pk_publication")),
    )


def upgrade() -> None:
    _create_fit()
    _create_fitter()
    _create_regressor()
    _create_publication()


def downgrade() -> None:
    op.drop_table("publication")
    op.drop_table("regressor")
    op.drop_table("fitter")
    op.drop_table("fit")
