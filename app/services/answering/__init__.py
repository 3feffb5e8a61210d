"""Answers questions with a published regressor: durations, costs, energy, warnings."""
