"""Estimators of scikit-learn as members, stored as forms instead of objects."""
