"""Create the reports of CI systems and the baselines that people acknowledge."""

import sqlalchemy as sa
from alembic import op

from app.storage.types import BIG_ID, JSON_DOCUMENT, UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def _create_ci_report() -> None:
    op.create_table(
        "ci_report",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("document", JSON_DOCUMENT, nullable=False),
        sa.Column("acknowledged_at", UtcDateTime(), nullable=True),
        sa.Column("acknowledged_by", sa.String(length=200), nullable=True),
        sa.Column("acknowledged_reason", sa.Text(), nullable=True),
        sa.Column("promoted_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
            name=op.f("fk_ci_report_project_id_project"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ci_report")),
    )
    op.create_index("ix_ci_report_project_id_id", "ci_report", ["project_id", "id"])


def _create_baseline() -> None:
    op.create_table(
        "baseline",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("workload_id", BIG_ID, nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("author", sa.String(length=200), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("report_id", sa.String(length=40), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_id"],
            ["workload.id"],
            name=op.f("fk_baseline_workload_id_workload"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_baseline")),
    )
    op.create_index("ix_baseline_workload_id_id", "baseline", ["workload_id", "id"])


def upgrade() -> None:
    _create_ci_report()
    _create_baseline()


def downgrade() -> None:
    op.drop_table("baseline")
    op.drop_table("ci_report")
