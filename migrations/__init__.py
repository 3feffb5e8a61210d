"""The schema's history, applied by `trainfare migrate`."""
