"""Record what each fitter waits for before it can compute."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("fitter") as table:
        table.add_column(sa.Column("waits_for", sa.String(length=300), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("fitter") as table:
        table.drop_column("waits_for")
