"""Converts what other tools recorded to runs: Spark, Slurm, MLflow, benchmarks, tables."""
