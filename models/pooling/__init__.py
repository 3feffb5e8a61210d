"""What workloads learn from each other: summaries, priors, effects of levels."""
