"""Which known name a misspelled one most likely means."""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

_MIN_SIMILARITY: Final = 0.8
"""Least similarity of a typo, an edit or two; that of "precision" and "region" is 0.67."""
_SEPARATOR: Final = re.compile(r"(?<!\d)[_\- ]|[_\- ](?!\d)")
_ALIASES: Final[Mapping[str, str]] = {
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


def folded(text: str) -> str:
    r"""Return a text without its case and without the ways to encode its accents (NFC, NFD).

    Examples
    --------
    >>> folded("FP16") == folded("fp16"), folded("\u00c9t\u00e9") == folded("e\u0301te\u0301")
    (True, True)
    """
    if text.isascii():
        return text.casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).casefold())


def bare(name: str) -> str:
    """Return a name without its case, the ways to encode accents, underscores, hyphens and spaces.

    Those between two digits stay, as they tell numbers apart.

    Examples
    --------
    >>> bare("Batch Norm") == bare("batch_norm") == bare("batchNorm"), bare("conv_1-2")
    (True, 'conv1-2')
    """
    return _SEPARATOR.sub("", folded(name))


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
    by_normalized = {bare(field): field for field in known}
    normalized = bare(name)
    if normalized in by_normalized:
        return by_normalized[normalized]
    prefixed = [field for field in by_normalized.values() if normalized in _prefixes_of(field)]
    aliased = [field for field in by_normalized.values() if normalized in _aliases_of(field)]
    if aliased or prefixed:
        return min(aliased or prefixed, key=len)
    by_prefix = {
        prefix: field for field in by_normalized.values() for prefix in _prefixes_of(field)
    }
    return _closest(normalized, by_normalized) or _closest(normalized, by_prefix)


def _closest(name: str, candidates: Mapping[str, str]) -> str | None:
    # Much longer names are not similar enough, and comparing megabytes takes gigabytes.
    if len(name) > max(map(len, candidates), default=0) * (2 / _MIN_SIMILARITY - 1):
        return None
    matches = get_close_matches(name, candidates, n=1, cutoff=_MIN_SIMILARITY)
    return candidates[matches[0]] if matches else None


def _aliases_of(field: str) -> set[str]:
    """Return the other names of a field, normalized."""
    return {bare(alias) for alias in _ALIASES.get(field, "").split()}


def _prefixes_of(field: str) -> set[str]:
    """Return the beginnings of a field, up to each of its words but the last, normalized."""
    words = field.casefold().split("_")
    return {"".join(words[:count]) for count in range(1, len(words))}
