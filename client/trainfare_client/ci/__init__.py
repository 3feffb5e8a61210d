"""The client side of the CI hook: `trainfare ci report` and its output."""
