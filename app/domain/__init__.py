"""The words of the project as plain data: no framework, no database, standard library only."""
