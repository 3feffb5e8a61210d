"""The measured range of each numeric column, and the measured levels of each categorical one."""

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
    levels_of = {
        name: tuple(sorted({level for level in column if level is not None}))
        for name, column in sorted(features.categorical.items())
    }
    return {name: levels for name, levels in levels_of.items() if levels}
