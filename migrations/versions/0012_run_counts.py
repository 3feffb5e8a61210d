"""Count the runs of each workload once, so that lists need not.

Uploads continue meanwhile: runs that the previous version stores after this count invalidate the
workload's row, and the next upload counts anew.
"""

from collections import defaultdict

import sqlalchemy as sa
from alembic import op

from app.storage.types import JSON_DOCUMENT

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 1000


def upgrade() -> None:
    rows = _count(op.get_bind())  # before its reference to `workload` locks out writers there
    table = op.create_table(
        "run_count",
        sa.Column("workload_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite")),
        sa.Column("newest_run_id", sa.String(length=40), nullable=True),
        sa.Column("by_status", JSON_DOCUMENT, nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_id"],
            ["workload.id"],
            name=op.f("fk_run_count_workload_id_workload"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("workload_id", name=op.f("pk_run_count")),
    )
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        op.bulk_insert(table, rows[start : start + _ROWS_AT_ONCE])


def _count(connection: sa.Connection) -> list[dict[str, object]]:
    run = sa.table("run", sa.column("workload_id"), sa.column("status"), sa.column("id"))
    counted = sa.select(
        run.c.workload_id, run.c.status, sa.func.count(), sa.func.max(run.c.id)
    ).group_by(run.c.workload_id, run.c.status)
    by_status: defaultdict[int, dict[str, int]] = defaultdict(dict)
    newest: dict[int, str] = {}
    for workload_id, status, number, last in connection.execute(counted):
        by_status[workload_id][status] = number
        newest[workload_id] = max(newest.get(workload_id, ""), last)
    return [
        {"workload_id": key, "newest_run_id": newest[key], "by_status": counts}
        for key, counts in by_status.items()
    ]


def downgrade() -> None:
    op.drop_table("run_count")
