"""The fit report and the memory law of an artefact, as JSON and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from models.errors import ArtifactError
from models.memory_features import MemoryFeatures
from models.memory_law import MemoryLaw
from models.memory_parameters import prior_of
from models.reports import (
    CandidateReport,
    ChangePoint,
    EvidenceReport,
    FitReport,
    MemoryCounts,
    Outlier,
    PoolingReport,
    UnfinishedCounts,
)
from models.tables import FloatArray

_PLANE = 2


def build_report(header: Mapping[str, Any]) -> FitReport:
    """Return a report from its JSON."""
    values = dict(header)
    values["candidates"] = tuple(CandidateReport(**item) for item in header["candidates"])
    values["numeric_ranges"] = {
        name: (low, high) for name, (low, high) in header["numeric_ranges"].items()
    }
    values["category_levels"] = {
        name: tuple(levels) for name, levels in header["category_levels"].items()
    }
    values["evidence"] = _build_evidence(header["evidence"])
    pooling = header["pooling"]
    if pooling is not None:
        contributors = tuple(str(name) for name in pooling["contributors"])
        values["pooling"] = PoolingReport(
            contributors, int(pooling["factory"]), str(pooling["prior_hash"])
        )
    return FitReport(**values)


def _build_evidence(header: Mapping[str, Any]) -> EvidenceReport:
    memory = header["memory"]
    return EvidenceReport(
        None if memory is None else MemoryCounts(**memory),
        UnfinishedCounts(**header["unfinished"]),
        tuple(ChangePoint(**item) for item in header["change_points"]),
        tuple(Outlier(**item) for item in header["outliers"]),
    )


def law_header(law: MemoryLaw | None) -> dict[str, Any] | None:
    """Return what of a memory law is no array."""
    if law is None:
        return None
    return {
        "batch_center": law.features.batch_center,
        "parameters": [list(item) for item in law.features.parameters],
        "categories": [[name, list(levels)] for name, levels in law.features.categories],
        "capacities": law.capacities,
        "latent": list(law.latent),
        "counts": asdict(law.counts),
    }


def build_law(
    header: Mapping[str, Any] | None, arrays: Mapping[str, FloatArray]
) -> MemoryLaw | None:
    """Return a memory law from its JSON and its draws.

    Raises
    ------
    ArtifactError
        If the draws do not fit the features.
    """
    if header is None:
        return None
    center = header["batch_center"]
    features = MemoryFeatures(
        None if center is None else float(center),
        tuple((str(name), float(at), float(unit)) for name, at, unit in header["parameters"]),
        tuple((str(name), tuple(map(str, levels))) for name, levels in header["categories"]),
    )
    latent, draws = tuple(str(name) for name in header["latent"]), arrays["memory_law.draws"]
    means, _ = prior_of(features, len(latent))
    if draws.ndim != _PLANE or not len(draws) or draws.shape[1] != len(means):
        raise ArtifactError("The artefact's memory law does not fit together.")
    capacities = {str(name): float(value) for name, value in header["capacities"].items()}
    return MemoryLaw(features, capacities, latent, draws, MemoryCounts(**header["counts"]))
