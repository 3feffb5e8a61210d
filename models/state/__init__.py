"""Tools that read artefacts: typed JSON, checks of numbers, the container of named parts."""
