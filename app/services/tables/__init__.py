"""Runs and questions as the tables of the regression library."""
