"""Let each price state how durations are billed: a minimum, and rounding to steps."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_COLUMNS = ("minimum_billed_s", "billing_step_s")


def upgrade() -> None:
    with op.batch_alter_table("price") as table:
        for name in _COLUMNS:
            table.add_column(sa.Column(name, sa.Integer(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("price") as table:
        for name in _COLUMNS:
            table.drop_column(name)
