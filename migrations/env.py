"""Runs migrations on the connection from `app.storage.migration` (or on a developer's URL)."""

import sqlalchemy as sa
from alembic import context

from app.settings import Settings
from app.storage.database import make_engine
from app.storage.migration import limit_lock_waits
from app.storage.tables import Base


def _migrate(connection: sa.Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


def main() -> None:
    """Migrate on the given connection, or on the one that the settings name."""
    connection = context.config.attributes.get("connection")
    if connection is not None:
        _migrate(connection)
        return
    with make_engine(Settings().url).connect() as own:
        limit_lock_waits(own)
        _migrate(own)
        own.commit()


main()
