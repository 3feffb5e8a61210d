"""Record the format of each artefact, so that each release uses what it can read."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_FORMAT_WHEN_IT_WAS_NOT_REMEMBERED = "10"


def upgrade() -> None:
    with op.batch_alter_table("regressor") as table:
        table.add_column(
            sa.Column(
                "format_version",
                sa.Integer(),
                nullable=False,
                server_default=_FORMAT_WHEN_IT_WAS_NOT_REMEMBERED,
            )
        )
    op.create_index(
        "ix_regressor_workload_id_version_format_version",
        "regressor",
        ["workload_id", "version", "format_version"],
    )


def downgrade() -> None:
    op.drop_index("ix_regressor_workload_id_version_format_version", table_name="regressor")
    with op.batch_alter_table("regressor") as table:
        table.drop_column("format_version")
