"""Rows in, domain objects out: the only layer that knows SQL."""
