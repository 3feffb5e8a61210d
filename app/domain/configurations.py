"""The measured or proposed cluster and the work that is done on it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Final

ParameterValue = float | str
"""A workload's further parameter: a number or a category."""

MAX_PARAMETER: Final = 1e90
"""Largest absolute value of a numeric parameter; regressors accept 1e100."""

NUMERIC_FEATURES: Final = ("workers", "nodes", "dataset_size", "batch_size", "epochs")
CATEGORY_FEATURES: Final = ("gpu_type", "instance_type")


class Purchase(StrEnum):
    """How capacity is paid for."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED = "reserved"
    OWNED = "owned"


@dataclass(frozen=True, slots=True)
class Configuration:
    """A cluster, measured or proposed; `workers` are data-parallel training processes."""

    gpu_type: str | None = None
    instance_type: str | None = None
    provider: str | None = None
    region: str | None = None
    purchase: Purchase | None = None
    nodes: int | None = None
    workers: int = 1


def leaves_nodes_open(configuration: Configuration) -> bool:
    """Return whether a configuration does not give the number of nodes."""
    return configuration.nodes is None


@dataclass(frozen=True, slots=True)
class Work:
    """What has to be done: `dataset_size` in the workload's unit, `batch_size` over all workers."""

    dataset_size: float | None = None
    batch_size: float | None = None
    epochs: float | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question about a workload: a configuration, its work and the further parameters."""

    configuration: Configuration = field(default_factory=Configuration)
    work: Work = field(default_factory=Work)
    parameters: Mapping[str, ParameterValue] = field(default_factory=dict)

    def digest(self) -> str:
        """Return the SHA-256 (hex) of what determines the duration.

        Where capacity is bought and how it is paid for is excluded.
        """
        work = self.work
        amounts = work.dataset_size, work.batch_size, work.epochs
        return digest_of(
            (
                configuration_fact(self.configuration),
                *map(amount_fact, amounts),
                *(parameter_fact(*parameter) for parameter in sorted(self.parameters.items())),
            )
        )


def digest_of(facts: Iterable[str]) -> str:
    """Return the digest of a scenario with these facts, parameters ordered by name."""
    return sha256(f"({', '.join(facts)})".encode()).hexdigest()


def configuration_fact(configuration: Configuration) -> str:
    """Return the part of a digest's text for a configuration."""
    facts = (
        configuration.gpu_type,
        configuration.instance_type,
        configuration.nodes,
        configuration.workers,
    )
    return repr(facts)[1:-1]


def amount_fact(amount: float | None) -> str:
    """Return the part of a digest's text for a member of the work."""
    return repr(_plain(amount))


def parameter_fact(name: str, value: ParameterValue) -> str:
    """Return the part of a digest's text for a parameter."""
    return repr((name, _plain(value)))


def _plain(value: ParameterValue | None) -> ParameterValue | None:
    return float(value) if isinstance(value, int) else value
