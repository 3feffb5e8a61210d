"""The metrics of Prometheus: what one process counts, its siblings, and the database."""
