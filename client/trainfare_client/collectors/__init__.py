"""Collectors: they measure a training where it runs, and never break it."""
