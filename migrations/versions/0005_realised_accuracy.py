"""Record when each version was published, and the question of each recorded forecast."""

import sqlalchemy as sa
from alembic import op

from app.storage.types import BIG_ID, UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_EVENT_COLUMNS = "workload_id, version, published_at"


def _create_publication_event() -> None:
    op.create_table(
        "publication_event",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("workload_id", BIG_ID, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("published_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workload_id", "version"],
            ["regressor.workload_id", "regressor.version"],
            name=op.f("fk_publication_event_workload_id_version_regressor"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_publication_event")),
    )
    op.create_index(
        "ix_publication_event_workload_id_id", "publication_event", ["workload_id", "id"]
    )


def upgrade() -> None:
    _create_publication_event()
    op.execute(
        f"INSERT INTO publication_event ({_EVENT_COLUMNS})"  # noqa: S608 - our own columns
        f" SELECT {_EVENT_COLUMNS} FROM publication ORDER BY published_at"
    )
    op.add_column("forecast", sa.Column("scenario_sha256", sa.String(length=64), nullable=True))
    op.create_index(
        "ix_forecast_workload_id_scenario_sha256", "forecast", ["workload_id", "scenario_sha256"]
    )


def downgrade() -> None:
    op.drop_index("ix_forecast_workload_id_scenario_sha256", table_name="forecast")
    op.drop_column("forecast", "scenario_sha256")
    op.drop_table("publication_event")
