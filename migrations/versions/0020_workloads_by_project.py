"""Index the workloads by project: a page of the list read and sorted all of the project's."""

import sqlalchemy as sa
from alembic import op

from migrations.indexes import build_index

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_TABLE = "workload"
_INDEX = "ix_workload_project_id_id"
_COLUMNS = ["project_id", "id"]


def prepare(connection: sa.Connection) -> None:
    """Build the index while others write, on PostgreSQL and outside of a transaction."""
    build_index(connection, _INDEX, _TABLE, _COLUMNS)


def upgrade() -> None:
    op.create_index(_INDEX, _TABLE, _COLUMNS, if_not_exists=True)


def downgrade() -> None:
    op.drop_index(_INDEX, table_name=_TABLE)
