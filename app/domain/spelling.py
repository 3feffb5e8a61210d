"""Which known name a misspelled one most likely means."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

_LIKENESS: Final = 0.8
"""Least similarity of a typo, an edit or two; that of "precision" and "region" is 0.67."""
_OTHER_NAMES: Final[Mapping[str, str]] = {
    "workers": "gpus num_gpus n_gpus ngpu gpu_count num_workers n_workers world_size",
    "gpu_count": "gpus num_gpus n_gpus ngpu num_workers workers",
    "gpu_type": "gpu gpu_name gpu_model accelerator accelerator_type device",
    "instance_type": "instance machine machine_type vm vm_type",
    "nodes": "num_nodes n_nodes hosts machines instances",
    "duration_seconds": "time seconds runtime elapsed walltime wall_time train_time training_time"
    " elapsed_seconds elapsed_s time_s total_time",
    "cost_usd": "total_cost usd",
    "batch_size": "bs batch global_batch_size train_batch_size minibatch_size",
    "dataset_size": "samples num_samples n_samples rows tokens examples data_size dataset",
    "epochs": "num_epochs n_epochs num_train_epochs",
    "resource.peak_gpu_memory_bytes": "peak_gpu_memory_bytes peak_gpu_memory",
    "resource.peak_memory_bytes": "peak_memory_bytes peak_memory",
    "resource.energy_joules": "energy_joules energy_j energy",
    "external_id": "id job_id run_name",
    "workload": "job task workload_id",
    "succeeded": "success ok done completed finished",
    "failed": "failure error crashed",
    "out_of_memory": "oom",
    "page_size": "limit per_page",
}
"""Other names of a field or a state."""


def nearest_field(name: str, known: Iterable[str]) -> str | None:
    """Return the known field that `name` most likely means ("batchsize" -> "batch_size").

    In this order: a field that differs only in case and underscores; one with this other name; of
    those that begin with it as with whole words, the first of the shortest; one with a typo.

    Examples
    --------
    >>> nearest_field("batchsize", ["batch_size", "epochs"])
    'batch_size'
    >>> nearest_field("gpus", ["gpu_type", "workers"])
    'workers'
    >>> nearest_field("price", ["purchase", "price_per_hour"])
    'price_per_hour'
    >>> nearest_field("cost", ["cost_currency", "cost_usd"])
    'cost_usd'
    >>> nearest_field("duraton", ["duration_seconds"])
    'duration_seconds'
    >>> nearest_field("precision", ["region"])
    """
    squeezed = {_squeeze(field): field for field in known}
    asked = _squeeze(name)
    if asked in squeezed:
        return squeezed[asked]
    begun = [field for field in squeezed.values() if asked in _first_words(field)]
    meant = [field for field in squeezed.values() if asked in _others_of(field)]
    if meant or begun:
        return min(meant or begun, key=len)
    begins = {begin: field for field in squeezed.values() for begin in _first_words(field)}
    return _with_typo(asked, squeezed) or _with_typo(asked, begins)


def _squeeze(name: str) -> str:
    return name.replace("_", "").replace("-", "").casefold()


def _with_typo(asked: str, known: Mapping[str, str]) -> str | None:
    # Much longer names are not similar enough, and comparing megabytes takes gigabytes.
    if len(asked) > max(map(len, known), default=0) * (2 / _LIKENESS - 1):
        return None
    match = get_close_matches(asked, known, n=1, cutoff=_LIKENESS)
    return known[match[0]] if match else None


def _others_of(field: str) -> set[str]:
    """Return the other names of a field, squeezed."""
    return {_squeeze(other) for other in _OTHER_NAMES.get(field, "").split()}


def _first_words(field: str) -> set[str]:
    """Return the beginnings of a field, up to each of its words but the last, squeezed."""
    words = field.casefold().split("_")
    return {"".join(words[:count]) for count in range(1, len(words))}
