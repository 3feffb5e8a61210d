"""How fast uploads are stored, beside plain inserts into the same database."""
