"""Reads uploaded runs, judges every row and prepares the good ones for storing."""
