"""The use cases: every business rule, one transaction a call."""
