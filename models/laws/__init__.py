"""Scaling laws: the priors of their exponents, their equations, their regressors."""
