"""Reads uploaded runs, checks every row and prepares the good ones for storage."""
