"""Record which runs each fit has seen.

Earlier fits, and those that the previous version computes, are assumed to have seen what was
stored when they began.
"""

import sqlalchemy as sa
from alembic import op

from app.storage.types import UtcDateTime

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("fit") as table:
        table.add_column(sa.Column("seen_until", UtcDateTime(), nullable=True))
        table.add_column(sa.Column("unseen_run_id", sa.String(length=40), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("fit") as table:
        table.drop_column("unseen_run_id")
        table.drop_column("seen_until")
