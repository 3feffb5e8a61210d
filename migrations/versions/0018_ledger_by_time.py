"""Order the ledger's index by time: ordered by digest, each insert touches a page of its own.

It is searched for scenarios from the newest on. On PostgreSQL it may be built beforehand by
`CREATE INDEX CONCURRENTLY`. `accuracy` of the previous version, which searches by digest, is slow
until that version is replaced.
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
_IS_UNFINISHED = sa.text(
    "SELECT EXISTS (SELECT FROM pg_index WHERE NOT indisvalid AND indexrelid = to_regclass(:name))"
)


def _drop_unfinished() -> None:
    """Drop an index whose building beforehand was interrupted: no query would use it."""
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    if connection.scalar(_IS_UNFINISHED, {"name": _BY_TIME}):
        op.drop_index(_BY_TIME, table_name=_TABLE)


def upgrade() -> None:
    _drop_unfinished()
    columns = ["workload_id", "id", "scenario_sha256"]
    op.create_index(_BY_TIME, _TABLE, columns, if_not_exists=True)
    op.drop_index(_BY_DIGEST, table_name=_TABLE)


def downgrade() -> None:
    columns = ["workload_id", "scenario_sha256"]
    op.create_index(_BY_DIGEST, _TABLE, columns, if_not_exists=True)
    op.drop_index(_BY_TIME, table_name=_TABLE)
