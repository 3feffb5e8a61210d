"""How workers are placed on nodes if a question does not say: as densely as was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, inf, isnan, nan

import numpy as np

from models.tables import BoolArray, FeatureTable, FloatArray

_HARDWARE = ("gpu_type", "instance_type")
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Placement:
    """The most workers measured on one node, overall and by kind of hardware.

    Hardware measured on one node only may have room for more workers: it gets the overall density.

    Attributes
    ----------
    densest
        The most workers that were measured on one node.
    columns, levels, densities
        The same for each GPU type and instance type that was measured on several nodes.
    is_regular
        Whether all runs with known nodes were placed that densely: the nodes of a question that
        leaves them open are then known.
    """

    densest: float
    columns: tuple[str, ...]
    levels: tuple[str, ...]
    densities: tuple[float, ...]
    is_regular: bool

    @classmethod
    def learn(cls, features: FeatureTable) -> "Placement | None":
        """Return the placement of measured configurations, None if their nodes never varied.

        Configurations without nodes are ignored. Where workers do not divide evenly, the fullest
        node counts.

        Examples
        --------
        >>> workers, nodes = np.array([4.0, 8.0, 16.0]), np.array([1.0, 1.0, 2.0])
        >>> placement = Placement.learn(FeatureTable({"workers": workers, "nodes": nodes}, {}, 3))
        >>> placement.densest, placement.is_regular
        (8.0, True)
        >>> questions = FeatureTable({"workers": np.array([8.0, 20.0])}, {}, 2)
        >>> placement.filled(questions).numeric["nodes"].tolist()
        [1.0, 3.0]
        """
        workers, nodes = features.numeric.get("workers"), features.numeric.get("nodes")
        if workers is None or nodes is None:
            return None
        # Comparisons with NaN are false.
        placed = features.take(np.flatnonzero((workers >= 1) & (nodes >= 1)))
        workers, nodes = placed.numeric["workers"], placed.numeric["nodes"]
        # Nodes that never varied teach nothing.
        if not placed.n_rows or nodes.min() == nodes.max():
            return None
        density = np.maximum(np.ceil(workers / nodes - _ROUNDING), 1.0)
        measured = [
            (column, level, float(density[rows].max()))
            for column in _HARDWARE
            for level, rows in _rows_by_level(placed.categorical.get(column, ()))
            if (nodes[rows] > 1).any()
        ]
        columns, levels, densities = zip(*measured, strict=True) if measured else ((), (), ())
        draft = cls(float(density.max()), columns, levels, densities, is_regular=False)
        is_regular = bool((draft._nodes(placed, workers) == nodes).all())
        return cls(draft.densest, columns, levels, densities, is_regular)

    def density(
        self, gpu_type: str | None, instance_type: str | None, gpus: int | None
    ) -> float | None:
        """Return how many workers one node takes, None where the runs' placement was not regular.

        Parameters
        ----------
        gpu_type, instance_type
            The hardware that is asked about, named as in the runs.
        gpus
            Number of GPUs of the instance type, None if unknown; the answer where the instance type
            was not measured on several nodes.

        Examples
        --------
        >>> placement = Placement(8.0, ("gpu_type",), ("A100",), (4.0,), is_regular=True)
        >>> placement.density("A100", None, None), placement.density("A100", "p4d.24xlarge", 8)
        (4.0, 8.0)
        """
        densities = self._densities()
        measured = densities.get(("instance_type", instance_type))
        if measured is None and gpus:
            return float(gpus)
        if not self.is_regular:
            return None
        return measured or densities.get(("gpu_type", gpu_type), self.densest)

    def open_rows(self, features: FeatureTable) -> BoolArray | None:
        """Return which rows leave the nodes open, shape (n_rows,); None if none does."""
        nodes = features.numeric.get("nodes")
        if nodes is None:
            return np.full(features.n_rows, True)  # noqa: FBT003 - numpy's way
        missing = np.isnan(nodes)
        return missing if missing.any() else None

    def filled(self, features: FeatureTable) -> FeatureTable:
        """Return the questions with open nodes filled in where the workers are known."""
        workers, given = features.numeric.get("workers"), features.numeric.get("nodes")
        if workers is None:
            return features
        if features.n_rows == 1 and given is not None and not isnan(given.item()):
            return features
        is_open = self.open_rows(features)
        if is_open is None:
            return features
        nodes = self._nodes(features, workers)
        if given is not None:
            nodes = np.where(is_open, nodes, given)
        numeric = {**features.numeric, "nodes": nodes}
        return FeatureTable(numeric, features.categorical, features.n_rows)

    def _nodes(self, features: FeatureTable, workers: FloatArray) -> FloatArray:
        densities = self._densities()
        level_densities = [
            [densities.get((column, level), inf) for level in features.categorical[column]]
            for column in dict.fromkeys(self.columns)
            if column in features.categorical
        ]
        # Scalars: most tables have one row, and an array of one element costs ten times as much.
        lowest = [min(row) for row in zip(*level_densities, strict=True)] or [inf] * len(workers)
        nodes = [
            nan if isnan(count) else nodes_for(count, self.densest if density == inf else density)
            for count, density in zip(workers.tolist(), lowest, strict=True)
        ]
        return np.array(nodes, dtype=np.float64)

    def _densities(self) -> dict[tuple[str, str | None], float]:
        keys = zip(self.columns, self.levels, strict=True)
        return dict(zip(keys, self.densities, strict=True))


def nodes_for(workers: float, density: float) -> int:
    """Return how many nodes the workers need at `density` workers per node.

    Examples
    --------
    >>> nodes_for(12, 8.0), nodes_for(8, 8.0)
    (2, 1)
    """
    return max(ceil(workers / density - _ROUNDING), 1)


def _rows_by_level(column: Sequence[str | None]) -> list[tuple[str, BoolArray]]:
    levels = np.array(column, dtype=object)
    return [(level, levels == level) for level in sorted({name for name in column if name})]
