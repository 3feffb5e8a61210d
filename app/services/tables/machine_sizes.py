"""Machine size as a feature of runs on processors, and of questions about them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

import numpy as np

from app.pricing.machine_sizes import vcpus_of
from models import Evidence, FeatureTable, FloatArray, IntArray

INSTANCE_VCPUS: Final = "instance_vcpus"
"""The feature: virtual processors of the instance type, read from its name."""

_TOLERANCE: Final = 1e-6
_MAX_ROWS: Final = 1_000
"""Enough runs to show whether a column already gives the sizes."""


def with_sizes(features: FeatureTable) -> FeatureTable:
    """Return questions, or what runs show besides durations, with the size of each machine.

    Rows whose instance type gives no size have none.
    """
    sizes = _sizes(features.categorical.get("instance_type", (None,) * features.n_rows))
    numeric = {**features.numeric, INSTANCE_VCPUS: sizes}
    return FeatureTable(numeric, features.categorical, features.n_rows)


def with_sizes_of_runs(evidence: Evidence) -> Evidence:
    """Return the evidence of unfinished runs and of phases, with the sizes of machines.

    Memory is left as it is: it depends on the instance types by name.
    """
    unfinished, phases = evidence.unfinished, evidence.phases
    return replace(
        evidence,
        unfinished=unfinished and replace(unfinished, features=with_sizes(unfinished.features)),
        phases=phases and replace(phases, features=with_sizes(phases.features)),
    )


def are_sized(features: FeatureTable) -> bool:
    """Return whether machine sizes tell something about the runs that no other column tells.

    They do where runs on processors name instance types of at least two sizes, but state the
    number of processors neither per machine nor in total: no column, and no product or quotient of
    two columns, is proportional to the sizes.

    Examples
    --------
    >>> names, cores = ["c5.large", "c5.xlarge", "c5.large"], np.array([2.0, 8.0, 4.0])
    >>> workers = np.array([1.0, 2.0, 2.0])
    >>> are_sized(FeatureTable({"workers": workers}, {"instance_type": names}, 3))
    True
    >>> columns = {"workers": workers, "param.cores": cores}
    >>> are_sized(FeatureTable(columns, {"instance_type": names}, 3))
    False
    """
    names = features.categorical.get("instance_type")
    if names is None or any(gpu is not None for gpu in features.categorical.get("gpu_type", ())):
        return False
    sizes = _sizes(names)
    known = np.flatnonzero(~np.isnan(sizes))
    if len(np.unique(sizes[known])) <= 1:
        return False
    rows = known[:: 1 + len(known) // _MAX_ROWS]
    return not _are_given_by(np.log(sizes[rows]), features.numeric, rows)


def statable_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that a question can state: the size comes with the instance type.

    Examples
    --------
    >>> statable_columns(("instance_vcpus", "instance_type"))
    ('instance_type',)
    """
    return tuple(name for name in columns if name != INSTANCE_VCPUS) if columns else columns


def _sizes(names: Sequence[str | None]) -> FloatArray:
    sizes: dict[str | None, int | None] = {
        name: None if name is None else vcpus_of(name) for name in set(names)
    }
    return np.array([sizes[name] or np.nan for name in names], dtype=np.float64)


def _are_given_by(log_sizes: FloatArray, numeric: Mapping[str, FloatArray], rows: IntArray) -> bool:
    columns = [column[rows] for column in numeric.values()]
    logs = [np.log(column) for column in columns if (column > 0).all() and np.ptp(column) > 0]
    return any(
        np.ptp(log_sizes - combination) < _TOLERANCE for combination in _log_combinations(logs)
    )


def _log_combinations(logs: Sequence[FloatArray]) -> Iterator[FloatArray]:
    """Yield the logarithms of the columns, and of the products and quotients of pairs."""
    yield from logs
    for first, second in combinations(logs, 2):
        yield first + second
        yield first - second
        yield second - first
