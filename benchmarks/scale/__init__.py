"""Whether the service costs the same with many stored runs as with few."""
