"""What a profiling plan is based on, may measure, spends and warns of."""
