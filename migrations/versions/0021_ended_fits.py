"""Index the fits by their end: metrics tell the outcomes of the last hour at each scrape."""

import sqlalchemy as sa
from alembic import op

from migrations.indexes import build_index

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_TABLE = "fit"
_INDEX = "ix_fit_ended_at"
_COLUMNS = ["ended_at"]


def prepare(connection: sa.Connection) -> None:
    """Build the index while others write, on PostgreSQL and outside of a transaction."""
    build_index(connection, _INDEX, _TABLE, _COLUMNS)


def upgrade() -> None:
    op.create_index(_INDEX, _TABLE, _COLUMNS, if_not_exists=True)


def downgrade() -> None:
    op.drop_index(_INDEX, table_name=_TABLE)
