"""Let projects have limits, and share rate limits between replicas."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_LIMITS = {
    "max_runs": sa.BigInteger(),
    "max_workloads": sa.Integer(),
    "max_fits_per_day": sa.Integer(),
    "max_queued_fits": sa.Integer(),
    "requests_per_minute": sa.Integer(),
    "runs_stored": sa.BigInteger(),
}


def upgrade() -> None:
    with op.batch_alter_table("project") as table:
        for name, kind in _LIMITS.items():
            table.add_column(sa.Column(name, kind, nullable=True))
    op.create_table(
        "rate_window",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("minute", sa.BigInteger(), nullable=False),
        sa.Column("taken", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
            name=op.f("fk_rate_window_project_id_project"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_rate_window")),
    )


def downgrade() -> None:
    op.drop_table("rate_window")
    with op.batch_alter_table("project") as table:
        for name in reversed(_LIMITS):
            table.drop_column(name)
