"""How fast the service answers, loads and starts, beside the floor of each."""
