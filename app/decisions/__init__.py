"""Pure mathematics of decisions: arrays of forecasts in, choices out."""
