"""The configurations that a search considers, and the nearest one where none qualifies."""
