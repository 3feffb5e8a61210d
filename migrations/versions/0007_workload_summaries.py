"""Store with each regressor version what its workload contributes to the priors of others."""

import sqlalchemy as sa
from alembic import op

from app.storage.types import JSON_DOCUMENT

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table("regressor") as table:
        table.add_column(sa.Column("summary", JSON_DOCUMENT, nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("regressor") as table:
        table.drop_column("summary")
