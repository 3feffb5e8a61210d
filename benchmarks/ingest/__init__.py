"""How fast uploads are stored, compared with plain inserts into the same database."""
