"""Whether a configuration fits into the memory of its accelerators."""
