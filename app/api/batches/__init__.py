"""Batches: thousands of forecasts evaluated together and written column by column."""
