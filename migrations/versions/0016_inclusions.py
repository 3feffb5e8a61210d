"""Record when excluded runs were included in fits.

The previous version includes runs without recording it: those count when the next ones come.
"""

import sqlalchemy as sa
from alembic import op

from app.storage.types import UtcDateTime

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_inclusion",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column(
            "workload_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False
        ),
        sa.Column("included_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["run_id"], ["run.id"], name=op.f("fk_run_inclusion_run_id_run"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_run_inclusion")),
    )
    op.create_index(
        "ix_run_inclusion_workload_id_included_at",
        "run_inclusion",
        ["workload_id", "included_at"],
    )


def downgrade() -> None:
    op.drop_table("run_inclusion")
