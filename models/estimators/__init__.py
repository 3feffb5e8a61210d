"""Estimators of scikit-learn as members, carried as forms instead of objects."""
