"""Pure pricing: resolution, billing and the built-in catalogue."""
