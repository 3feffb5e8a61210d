"""How often the interval of a forecast cost covers the measured cost."""
