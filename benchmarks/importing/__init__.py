"""The cost of importing a large event log."""
