"""How long a recommendation of thousands of candidates takes, and whether it is the optimum."""
