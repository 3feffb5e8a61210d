"""Scaling laws: what is believed of their exponents, their equations, their regressors."""
