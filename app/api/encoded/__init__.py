"""Forecasts as encoded bytes: written once, cached by the request's bytes, recorded."""
