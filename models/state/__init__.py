"""What an artefact is read with: typed JSON, checks of numbers, the container of named parts."""
