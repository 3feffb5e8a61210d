"""Order the ledger's index by time: ordered by digest, each insert touches a page of its own.

It is searched for scenarios from the newest on. `accuracy` of the previous version, which searches
by digest, is slow until that version is replaced.
"""

import sqlalchemy as sa
from alembic import op

from migrations.indexes import build_index

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_TABLE = "forecast"
_BY_TIME = "ix_forecast_workload_id_id_scenario_sha256"
_BY_DIGEST = "ix_forecast_workload_id_scenario_sha256"
_COLUMNS = ["workload_id", "id", "scenario_sha256"]


def prepare(connection: sa.Connection) -> None:
    """Build the index while others write, on PostgreSQL and outside of a transaction."""
    build_index(connection, _BY_TIME, _TABLE, _COLUMNS)


def upgrade() -> None:
    op.create_index(_BY_TIME, _TABLE, _COLUMNS, if_not_exists=True)
    op.drop_index(_BY_DIGEST, table_name=_TABLE)


def downgrade() -> None:
    columns = ["workload_id", "scenario_sha256"]
    op.create_index(_BY_DIGEST, _TABLE, columns, if_not_exists=True)
    op.drop_index(_BY_TIME, table_name=_TABLE)
