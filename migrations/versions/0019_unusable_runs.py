"""Index the runs that fits do not learn durations from: lists of these read only them.

They are few: the runs that succeeded and are not excluded, which are most, cost no entry.
"""

import sqlalchemy as sa
from alembic import op

from migrations.indexes import build_index

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_TABLE = "run"
_INDEX = "ix_run_unusable"
_COLUMNS = ["workload_id", "id"]
_UNUSABLE = "status <> 'succeeded' OR excluded"
# SQLite recognises the condition of a query by its wording.
_UNUSABLE_ON_SQLITE = sa.text("status <> 'succeeded' OR excluded = 1")


def prepare(connection: sa.Connection) -> None:
    """Build the index while others write, on PostgreSQL and outside of a transaction."""
    build_index(connection, _INDEX, _TABLE, _COLUMNS, where=_UNUSABLE)


def upgrade() -> None:
    op.create_index(
        _INDEX,
        _TABLE,
        _COLUMNS,
        if_not_exists=True,
        postgresql_where=sa.text(_UNUSABLE),
        sqlite_where=_UNUSABLE_ON_SQLITE,
    )


def downgrade() -> None:
    op.drop_index(_INDEX, table_name=_TABLE)
