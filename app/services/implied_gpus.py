"""Tells the GPU of an instance type that is named without it, to runs as to questions."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from app.domain.runs import RunColumns
from app.pricing.gpus import canonical_gpu_name, variants_of
from app.pricing.resolution import PriceBook


def implied_gpu(
    instance_type: str, measured: Collection[str] | None, book: PriceBook
) -> str | None:
    """Return the GPU that an instance type on sale has, in the words of the runs.

    None where that is unknown, where it has several types, or where no run names a GPU
    (`measured` is None): a regressor that knows no GPU types is asked for none.
    """
    gpus = set() if measured is None else book.gpu_types_of(instance_type)
    if measured is None or len(gpus) != 1:
        return None
    name = gpus.pop()
    return next((each for each in measured if name in variants_of(each)), name)


def gpus_of_runs(columns: RunColumns) -> list[str]:
    """Return the GPU types that runs name, sorted."""
    return sorted({canonical_gpu_name(name) for name in columns.gpu_type if name is not None})


def with_implied_gpus(
    columns: RunColumns, measured: Collection[str], book: PriceBook
) -> RunColumns:
    """Return runs with the GPUs of those that name their instance type alone.

    Only where other runs name theirs (`measured`). A question about such an instance type is put
    with its GPU, and would be one about a type that no run had.
    """
    silent = {
        instance
        for gpu, instance in zip(columns.gpu_type, columns.instance_type, strict=True)
        if gpu is None and instance is not None
    }
    if not measured or not silent:
        return columns
    implied: Mapping[str | None, str | None] = {
        instance: implied_gpu(instance, measured, book) for instance in silent
    }
    pairs = zip(columns.gpu_type, columns.instance_type, strict=True)
    filled = [implied.get(instance) if gpu is None else gpu for gpu, instance in pairs]
    return replace(columns, gpu_type=filled)
