"""The memory law of an artefact, as JSON and back."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from models.accelerator_memory.features import MAX_PARAMETERS, MemoryFeatures
from models.accelerator_memory.law import MemoryLaw
from models.accelerator_memory.parameters import prior_of
from models.reports import MemoryCounts
from models.state.checks import MAX_LOG, check_bounded, demand
from models.state.typed_json import json_reader
from models.tables import FloatArray


def law_header(law: MemoryLaw | None) -> dict[str, Any] | None:
    """Return the parts of a memory law that are not arrays."""
    if law is None:
        return None
    return {
        "batch_center": law.features.batch_center,
        "workers_center": law.features.workers_center,
        "parameters": [list(item) for item in law.features.parameters],
        "categories": [[name, list(levels)] for name, levels in law.features.categories],
        "capacities": law.capacities,
        "latent": list(law.latent),
        "counts": asdict(law.counts),
    }


@dataclass(frozen=True, slots=True)
class _Header:
    """The result of `law_header`."""

    batch_center: float | None
    workers_center: float
    parameters: tuple[tuple[str, float, float], ...]
    categories: tuple[tuple[str, tuple[str, ...]], ...]
    capacities: Mapping[str, float]
    latent: tuple[str, ...]
    counts: MemoryCounts


_read_header = json_reader(_Header)


def build_law(header: object, arrays: Mapping[str, FloatArray]) -> MemoryLaw | None:
    """Return a memory law from its JSON and its draws.

    Raises
    ------
    ValueError
        If the draws do not fit the features, or a number is out of range.
    """
    if header is None:
        return None
    parsed = _read_header(header)
    features = MemoryFeatures(
        parsed.batch_center, parsed.workers_center, parsed.parameters, parsed.categories
    )
    demand(len(parsed.parameters) <= MAX_PARAMETERS, "a memory law has too many parameters")
    demand(all(unit >= 0 for _, _, unit in parsed.parameters), "a unit is negative")
    draws, (means, _) = arrays["memory_law.draws"], prior_of(features, len(parsed.latent))
    demand(len(draws), "a memory law has no draws")
    check_bounded(draws, (len(draws), len(means)), "a memory law")
    capacities = dict(parsed.capacities)
    demand(all(abs(size) <= MAX_LOG for size in capacities.values()), "a memory is out of range")
    # Copied: a view would keep the whole artefact in memory as long as the law.
    return MemoryLaw(features, capacities, parsed.latent, draws.copy(), parsed.counts)
