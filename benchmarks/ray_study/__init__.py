"""How accurate forecasts of Ray Train jobs are inside and beyond the measured range."""
