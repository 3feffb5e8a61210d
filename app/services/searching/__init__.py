"""Which configurations a search looks at, and the nearest one where none qualifies."""
