"""How often the CI gate is wrong, in simulated reports with and without a change."""
