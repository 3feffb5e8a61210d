"""Fills in the GPU of an instance type named without one, in runs and in questions alike."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from app.domain.runs import RunColumns
from app.pricing.gpus import canonical_gpu_name, variants_of
from app.pricing.resolution import PriceBook

Hardware = tuple[str | None, str | None]
"""A GPU type and an instance type."""


def implied_gpu(
    instance_type: str, measured: Collection[str] | None, book: PriceBook
) -> str | None:
    """Return the GPU of an instance type on sale, under the name that the runs use.

    None where that is unknown, where the instance type has several types, or where the regressor
    knows no GPU types (`measured` is None) and so takes none in a question.
    """
    gpus = set() if measured is None else book.gpu_types_of(instance_type)
    if measured is None or len(gpus) != 1:
        return None
    name = gpus.pop()
    if name in measured:
        return name
    return next((family for family in measured if name in variants_of(family)), name)


def hardware_of(columns: RunColumns) -> set[Hardware]:
    """Return the pairs of GPU type and instance type that runs name."""
    return set(zip(columns.gpu_type, columns.instance_type, strict=True))


def known_gpus(hardware: Collection[Hardware], book: PriceBook) -> list[str]:
    """Return the GPU types that a regressor fitted on runs of this hardware knows, sorted.

    These are the ones that runs name. Where no run names one, they are those of the instance types,
    if every run's instance type has one: runs on processors, or on machines with unknown GPUs, have
    no GPU type.
    """
    if named := sorted({canonical_gpu_name(gpu) for gpu, _ in hardware if gpu is not None}):
        return named
    implied = {implied_gpu(instance, (), book) for instance in _instances_without_gpu(hardware)}
    return sorted(gpu for gpu in implied if gpu is not None) if None not in implied else []


def machines_with(
    gpu_type: str | None, hardware: Collection[Hardware], book: PriceBook
) -> set[str]:
    """Return the instance types that runs name without a GPU, where theirs is the given one.

    None is none. It is filled in as in `with_implied_gpus`, under the names of the same runs.
    """
    known = known_gpus(hardware, book)
    if gpu_type is None or not known:
        return set()
    machines = _instances_without_gpu(hardware)
    return {name for name in machines if implied_gpu(name, known, book) == gpu_type}


def _instances_without_gpu(hardware: Iterable[Hardware]) -> set[str]:
    """Return the instance types that are named without a GPU."""
    return {instance for gpu, instance in hardware if gpu is None and instance is not None}


def with_implied_gpus(columns: RunColumns, known: Collection[str], book: PriceBook) -> RunColumns:
    """Return the runs, filling in the GPU where a run names its instance type alone.

    Done only where the regressor knows GPU types (`known`). Questions about such an instance type
    are asked with its GPU, which would otherwise be a type that no run has.
    """
    instances = _instances_without_gpu(hardware_of(columns))
    if not known or not instances:
        return columns
    implied: Mapping[str | None, str | None] = {
        instance: implied_gpu(instance, known, book) for instance in instances
    }
    pairs = zip(columns.gpu_type, columns.instance_type, strict=True)
    filled = [implied.get(instance) if gpu is None else gpu for gpu, instance in pairs]
    return replace(columns, gpu_type=filled)


def with_implied_pairs(
    measured: Mapping[tuple[str | None, str | None], float | None],
    known: Collection[str] | None,
    book: PriceBook,
) -> dict[tuple[str | None, str | None], float | None]:
    """Return the measured pairs of GPU type and instance type as the regressor knows them.

    Parameters
    ----------
    measured
        The pairs that runs name, with the most workers on one node.
    known
        The GPU types of the regressor, None where it knows none.
    book
        Gives the GPUs of machines.
    """
    implied: dict[tuple[str | None, str | None], float | None] = {}
    for (gpu, instance), density_here in measured.items():
        if gpu is None and instance is not None:
            gpu = implied_gpu(instance, known, book)  # noqa: PLW2901 - as the regressor knows it
        densities = [
            density
            for density in (implied.get((gpu, instance)), density_here)
            if density is not None
        ]
        implied[gpu, instance] = max(densities, default=None)
    return implied
