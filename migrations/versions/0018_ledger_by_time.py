"""Order the ledger's index by time: ordered by digest, each insert touches a page of its own.

It is searched for scenarios from the newest on. `accuracy` of the previous version, which searches
by digest, is slow until that version is replaced.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_TABLE = "forecast"
_BY_TIME = "ix_forecast_workload_id_id_scenario_sha256"
_BY_DIGEST = "ix_forecast_workload_id_scenario_sha256"
_COLUMNS = ["workload_id", "id", "scenario_sha256"]
_IS_UNFINISHED = sa.text(
    "SELECT EXISTS (SELECT FROM pg_index WHERE NOT indisvalid AND indexrelid = to_regclass(:name))"
)


def prepare(connection: sa.Connection) -> None:
    """Build the index while others write, on PostgreSQL and outside of a transaction."""
    if connection.scalar(_IS_UNFINISHED, {"name": _BY_TIME}):
        # What an interrupted one leaves: no query would use it.
        connection.exec_driver_sql(f"DROP INDEX CONCURRENTLY {_BY_TIME}")
    connection.exec_driver_sql(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {_BY_TIME} ON {_TABLE} ({', '.join(_COLUMNS)})"
    )


def upgrade() -> None:
    op.create_index(_BY_TIME, _TABLE, _COLUMNS, if_not_exists=True)
    op.drop_index(_BY_DIGEST, table_name=_TABLE)


def downgrade() -> None:
    columns = ["workload_id", "scenario_sha256"]
    op.create_index(_BY_DIGEST, _TABLE, columns, if_not_exists=True)
    op.drop_index(_BY_TIME, table_name=_TABLE)
