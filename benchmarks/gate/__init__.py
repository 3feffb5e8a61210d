"""How often the CI gate is wrong: simulated reports with and without a change."""
