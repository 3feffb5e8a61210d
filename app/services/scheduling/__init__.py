"""Forecasts for many jobs at once, and the options of elastic jobs."""
