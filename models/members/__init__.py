"""What the members of a fit answer together."""
