"""Trainfare: a service that forecasts the time and cost of training machine-learning models."""
