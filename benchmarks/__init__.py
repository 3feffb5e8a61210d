"""Measurements of the project: accuracy of forecasts, speed of the service."""
