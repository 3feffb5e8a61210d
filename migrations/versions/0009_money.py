"""Store exchange rates and grid factors, and let a price be a serverless one."""

import sqlalchemy as sa
from alembic import op

from app.storage.types import JSON_DOCUMENT, UtcDateTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def _dated(table: str, *columns: sa.Column[str], check: sa.CheckConstraint) -> None:
    op.create_table(
        table,
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        *columns,
        sa.Column("valid_from", UtcDateTime(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("withdrawn_at", UtcDateTime(), nullable=True),
        check,
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
            name=op.f(f"fk_{table}_project_id_project"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
    )
    op.create_index(f"ix_{table}_project_id_id", table, ["project_id", "id"], unique=False)


def upgrade() -> None:
    _dated(
        "exchange_rate",
        sa.Column("from_currency", sa.String(length=3), nullable=False),
        sa.Column("to_currency", sa.String(length=3), nullable=False),
        sa.Column("rate", sa.String(length=40), nullable=False),
        check=sa.CheckConstraint(
            "CAST(rate AS NUMERIC) > 0", name=op.f("ck_exchange_rate_rate_positive")
        ),
    )
    _dated(
        "grid_factor",
        sa.Column("provider", sa.String(length=100), nullable=True),
        sa.Column("region", sa.String(length=100), nullable=True),
        sa.Column("kg_co2e_per_kwh", sa.String(length=40), nullable=False),
        check=sa.CheckConstraint(
            "CAST(kg_co2e_per_kwh AS NUMERIC) >= 0",
            name=op.f("ck_grid_factor_factor_not_negative"),
        ),
    )
    with op.batch_alter_table("price") as table:
        table.add_column(sa.Column("serverless", JSON_DOCUMENT, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("price") as table:
        table.drop_column("serverless")
    op.drop_table("grid_factor")
    op.drop_table("exchange_rate")
