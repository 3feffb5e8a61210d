"""Boosted trees: grown by LightGBM, stored and evaluated as lookup tables."""
