"""The choice among members: held-out forecasts, weights, arms, within a budget."""
