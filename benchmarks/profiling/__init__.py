"""What a profiling plan saves: dollars until a workload's forecasts are as good as possible."""
