"""How fast the service answers, loads and starts, relative to the floor of each."""
