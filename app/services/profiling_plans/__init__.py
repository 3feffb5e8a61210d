"""What a profiling plan rests on, may measure, spends and warns of."""
