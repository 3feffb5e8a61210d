"""How far forecasts of measured Ray Train jobs reach: inside and beyond what was measured."""
