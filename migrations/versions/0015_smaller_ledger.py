"""Drop an index of the ledger that no query needs and every recorded forecast paid for.

The removal of a workload finds its rows by the index that begins with the workload.
"""

from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("ix_forecast_workload_id_id", table_name="forecast")


def downgrade() -> None:
    op.create_index("ix_forecast_workload_id_id", "forecast", ["workload_id", "id"])
