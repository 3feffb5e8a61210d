"""Questions to a published regressor and their answers: durations, costs, energy, warnings."""
