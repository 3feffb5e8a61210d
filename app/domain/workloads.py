"""A workload: the training job whose time and cost are asked, and how it is to be fitted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from app.domain.identifiers import Slug, WorkloadId


class ParameterType(StrEnum):
    """What a parameter's values are; fixed by its declaration or its first use."""

    NUMBER = "number"
    CATEGORY = "category"


class RefitMode(StrEnum):
    """Who asks for a new fit after new runs."""

    MANUAL = "manual"
    AUTO = "auto"


class Pooling(StrEnum):
    """Where the priors of a workload's regressor are learned from."""

    PROJECT = "project"
    FACTORY = "factory"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class ParameterDeclaration:
    """A further parameter of a workload."""

    type: ParameterType
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class RefitPolicy:
    """When a workload is refitted without a request."""

    mode: RefitMode = RefitMode.MANUAL
    min_new_runs: int = 1
    max_age_s: float | None = None

    def is_overdue(self, began_at: datetime, now: datetime) -> bool:
        """Return whether a fit that began then is too old if any runs have come since."""
        return self.max_age_s is not None and (now - began_at).total_seconds() >= self.max_age_s


@dataclass(frozen=True, slots=True)
class WorkloadDeclaration:
    """What a user says about a workload."""

    description: str = ""
    dataset_unit: str | None = None
    parameters: Mapping[str, ParameterDeclaration] = field(default_factory=dict)
    currency: str = "USD"
    labels: Mapping[str, str] = field(default_factory=dict)
    refit_policy: RefitPolicy = field(default_factory=RefitPolicy)
    pooling: Pooling = Pooling.PROJECT


@dataclass(frozen=True, slots=True)
class Workload:
    """A stored workload."""

    workload_id: WorkloadId
    slug: Slug
    declaration: WorkloadDeclaration
    published_version: int | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The measured range of a numeric feature over `runs` runs."""

    minimum: float
    maximum: float
    runs: int


@dataclass(frozen=True, slots=True)
class CategoryLevels:
    """The measured values of a category over `runs` runs; the most frequent when they are many."""

    values: tuple[str, ...]
    runs: int


MeasuredFeatures = Mapping[str, NumberRange | CategoryLevels]
"""What was measured of each feature; parameters are named `param.NAME`."""
