"""Create projects, keys, idempotent answers and the audit log."""

import sqlalchemy as sa
from alembic import op

from app.storage.types import BIG_ID, JSON_DOCUMENT, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _create_project() -> None:
    op.create_table(
        "project",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_project")),
        sa.UniqueConstraint("name", name=op.f("uq_project_name")),
    )


def _create_api_key() -> None:
    op.create_table(
        "api_key",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("secret_sha256", sa.String(length=64), nullable=False),
        sa.Column("scopes", JSON_DOCUMENT, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
            name=op.f("fk_api_key_project_id_project"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_key")),
        sa.UniqueConstraint("secret_sha256", name=op.f("uq_api_key_secret_sha256")),
    )


def _create_idempotency() -> None:
    op.create_table(
        "idempotency",
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("path", sa.String(length=300), nullable=False),
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("body_sha256", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("fence", sa.String(length=32), nullable=False),
        sa.Column("locked_until", UtcDateTime(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", JSON_DOCUMENT, nullable=True),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
            name=op.f("fk_idempotency_project_id_project"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("project_id", "path", "key", name=op.f("pk_idempotency")),
    )
    op.create_index("ix_idempotency_created_at", "idempotency", ["created_at"], unique=False)


def _create_audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", BIG_ID, autoincrement=True, nullable=False),
        sa.Column("project_id", sa.String(length=40), nullable=False),
        sa.Column("key_id", sa.String(length=40), nullable=True),
        sa.Column("at", UtcDateTime(), nullable=False),
        sa.Column("action", sa.String(length=60), nullable=False),
        sa.Column("subject", sa.String(length=200), nullable=False),
        sa.Column("detail", JSON_DOCUMENT, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index("ix_audit_project_id_id", "audit", ["project_id", "id"], unique=False)


def upgrade() -> None:
    _create_project()
    _create_api_key()
    _create_idempotency()
    _create_audit()
    project = sa.table("project", sa.column("id"), sa.column("name"), sa.column("created_at"))
    op.execute(
        project.insert().values(
            id="default", name="default", created_at=sa.func.current_timestamp()
        )
    )


def downgrade() -> None:
    op.drop_table("audit")
    op.drop_table("idempotency")
    op.drop_table("api_key")
    op.drop_table("project")
