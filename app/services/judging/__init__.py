"""Runs held against forecasts: verdicts, expectations, drift."""
