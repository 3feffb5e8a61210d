"""Boosted trees: grown by LightGBM, kept and evaluated as lookup tables."""
