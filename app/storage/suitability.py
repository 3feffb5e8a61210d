"""What a database that is there must have, whatever its schema."""

from app.storage.collations import require_time_order
from app.storage.database import Database
from app.storage.poolers import require_own_sessions


def require_suitable(database: Database) -> None:
    """Refuse a PostgreSQL database that the service cannot use safely.

    Raises
    ------
    SharedSessionsError
        If a pooler shares its sessions, and the URL does not say so.
    ForeignOrderError
        If identifiers do not sort by their creation.
    """
    require_own_sessions(database)
    require_time_order(database)
