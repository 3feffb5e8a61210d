"""Converts to runs what other tools recorded: Spark, Slurm, Kubernetes, trackers, tables."""
