"""Algebra, optimisation and sampling that know nothing of runs."""
