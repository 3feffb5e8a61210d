"""Algebra, optimisation and sampling, independent of runs."""
