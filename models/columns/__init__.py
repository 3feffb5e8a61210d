"""What each column is worth: its share, relevance, spread, exponent and trend."""
