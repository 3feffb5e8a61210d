"""Whether the service costs the same beside many runs as beside few."""
