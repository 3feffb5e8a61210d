"""Measured runs: distinct configurations, their repetitions, noise and names."""
