"""Rows in, domain objects out: the only floor that knows SQL."""
