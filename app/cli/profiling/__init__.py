"""`trainfare profile`: a profiling plan measured on this machine, run by run."""
