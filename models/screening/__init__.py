"""Runs before a fit: eras, and unfinished, incomplete, contradicting and refuted runs."""
