"""What importing a large event log costs."""
