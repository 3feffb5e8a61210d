"""Questions to a fit, and how well its runs support the answers."""
