"""Record the trace of the request for each fit."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("fit") as table:
        table.add_column(sa.Column("trace_parent", sa.String(length=55), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("fit") as table:
        table.drop_column("trace_parent")
