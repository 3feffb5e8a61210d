"""Fuzzing that needs tools of its own; `make fuzz` runs it."""
