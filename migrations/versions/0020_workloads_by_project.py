"""Index the workloads by project: a page of the list read and sorted all of the project's."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_TABLE = "workload"
_INDEX = "ix_workload_project_id_id"
_COLUMNS = ["project_id", "id"]
_IS_UNFINISHED = sa.text(
    "SELECT EXISTS (SELECT FROM pg_index WHERE NOT indisvalid AND indexrelid = to_regclass(:name))"
)


def prepare(connection: sa.Connection) -> None:
    """Build the index while others write, on PostgreSQL and outside of a transaction."""
    if connection.scalar(_IS_UNFINISHED, {"name": _INDEX}):
        # What an interrupted one leaves: no query would use it.
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY {_INDEX}")
    connection.exec_driver_sql(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {_INDEX} ON {_TABLE} ({', '.join(_COLUMNS)})"
    )


def upgrade() -> None:
    op.create_index(_INDEX, _TABLE, _COLUMNS, if_not_exists=True)


def downgrade() -> None:
    op.drop_index(_INDEX, table_name=_TABLE)
