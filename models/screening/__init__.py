"""Runs that are weighed before a fit: eras, unfinished, incomplete, contradicting, refuted ones."""
