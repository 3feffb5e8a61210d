"""What a fit was made on and with: ranges, levels, versions of libraries."""

import platform
from importlib import metadata

import numpy as np

from models.tables import FeatureTable


def measured_ranges(features: FeatureTable) -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of each numeric column that has any."""
    return {
        name: (float(np.nanmin(values)), float(np.nanmax(values)))
        for name, values in sorted(features.numeric.items())
        if not np.isnan(values).all()
    }


def measured_levels(features: FeatureTable) -> dict[str, tuple[str, ...]]:
    """Return the levels of each categorical column that has any, sorted."""
    found = {
        name: tuple(sorted({level for level in column if level is not None}))
        for name, column in sorted(features.categorical.items())
    }
    return {name: levels for name, levels in found.items() if levels}


def library_versions() -> dict[str, str]:
    """Return the versions that a fit depends on, without importing the libraries."""
    names = ("lightgbm", "numpy", "scikit-learn", "scipy")
    return {"python": platform.python_version()} | {name: metadata.version(name) for name in names}
