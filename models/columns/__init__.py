"""What the runs show about each column: its share, relevance, spread, exponent and trend."""
