"""The use cases: every business rule, one transaction per call."""
