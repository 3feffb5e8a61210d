"""Mixed load while processes and the database die; a checker verifies all acknowledgements."""
