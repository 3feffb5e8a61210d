"""Questions to a fit, and how well its runs bear the answers."""
