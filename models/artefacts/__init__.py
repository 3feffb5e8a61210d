"""Fits as bytes: written, and refused or read back."""
