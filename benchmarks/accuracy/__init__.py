"""Accuracy of forecasts on measured runs in a common format."""
