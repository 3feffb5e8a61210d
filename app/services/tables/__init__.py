"""Turns runs and questions into the tables of the regression library."""
