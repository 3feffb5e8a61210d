"""How often the interval of a forecast cost covers what was measured."""
