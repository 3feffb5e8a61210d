"""Turns what other tools recorded into runs: Spark, Slurm, MLflow, benchmarks, plain tables."""
