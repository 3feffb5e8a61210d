"""What a workload's forecasts gain from the other workloads of its project and from public ones."""
