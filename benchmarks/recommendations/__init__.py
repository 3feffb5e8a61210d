"""The time of a recommendation among thousands of candidates, and whether it is the optimum."""
