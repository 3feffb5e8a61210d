"""Mixed load while processes and the database die; a checker compares what was promised."""
