"""A published version of a workload's regressor: never changed, only superseded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from app.domain.errors import InvalidRequestError
from app.domain.fits import Candidate
from app.domain.identifiers import FitId, RunId, Slug
from app.domain.workloads import Pooling


@dataclass(frozen=True, slots=True)
class MemoryEvidence:
    """Runs that the forecast of feasibility rests on."""

    measured_peaks: int
    out_of_memory: int
    succeeded: int


@dataclass(frozen=True, slots=True)
class UnfinishedUse:
    """How preempted, timed-out and cancelled runs were used."""

    as_lower_bounds: int = 0
    by_progress: int = 0
    uninformative: int = 0


@dataclass(frozen=True, slots=True)
class Shift:
    """An instant from which all durations were `factor` times as long as before."""

    at: datetime
    factor: float


@dataclass(frozen=True, slots=True)
class OutlierRun:
    """A run that took `ratio` times as long as its repetitions, or all other runs, predict."""

    run_id: RunId
    ratio: float


@dataclass(frozen=True, slots=True)
class Convergence:
    """The samples that a target takes and the gradient noise scale, as learned from runs.

    A batch as large as the noise scale needs twice the samples of a tiny one; its bounds are those
    of a 90 % interval, all in samples.
    """

    runs: int
    smallest_batch: float
    largest_batch: float
    noise_scale: float
    noise_scale_lower: float
    noise_scale_upper: float


@dataclass(frozen=True, slots=True)
class Jitter:
    """Noise of a fixed number of seconds, whatever a run computes, such as a varying start-up.

    Log durations of d seconds have the deviation ``sqrt(relative^2 + ln(1 + (seconds / d)^2))``.
    """

    relative: float
    seconds: float


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """What a fit used of runs besides complete durations, and what it found odd.

    `incomplete` counts the runs that were set aside because they lack fields that others have.
    """

    memory: MemoryEvidence | None = None
    unfinished: UnfinishedUse = UnfinishedUse()
    incomplete: int = 0
    change_points: tuple[Shift, ...] = ()
    outliers: tuple[OutlierRun, ...] = ()
    convergence: Convergence | None = None
    jitter: Jitter | None = None


@dataclass(frozen=True, slots=True)
class PoolingUse:
    """What the priors of a regressor were learned from.

    `workloads` are those of the project whose published regressors contributed, `factory_workloads`
    how many public ones did.
    """

    mode: Pooling
    workloads: tuple[Slug, ...] = ()
    factory_workloads: int = 0
    prior_sha256: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressorReport:
    """A fit's report on its regressor; errors are MAPE as fractions, coverage by level ("0.9").

    `failed_candidates` names the regressors that could not be fitted, each with its reason.
    """

    training_fingerprint: str
    n_runs: int
    n_configurations: int
    library_versions: Mapping[str, str] = field(default_factory=dict)
    numeric_ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    category_levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    failed_candidates: Mapping[str, str] = field(default_factory=dict)
    accuracy_by_axis: Mapping[str, float] = field(default_factory=dict)
    coverage: Mapping[str, float] = field(default_factory=dict)
    noise_floor: float | None = None
    seed: int = 0
    evidence: RunEvidence = RunEvidence()
    pooling: PoolingUse = PoolingUse(Pooling.OFF)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegressorVersion(RegressorReport):
    """A regressor's registry entry."""

    workload: Slug
    version: int
    fit_id: FitId
    created_at: datetime
    is_published: bool
    artifact_sha256: str
    artifact_bytes: int
    is_artifact_kept: bool
    format_version: int


class ArtifactRemovedError(InvalidRequestError):
    """A regressor version was asked whose artefact was removed; only its record is left."""

    remedy = "Take a later version, or fit the workload again: POST /v1/workloads/{workload}/fits."

    def __init__(self, slug: Slug, version: int) -> None:
        super().__init__(
            f"The artefact of regressor version {version} of workload {slug!r} was removed as old:"
            " the version cannot answer any more."
        )
        self.slug, self.version = slug, version


@dataclass(frozen=True, slots=True)
class Publication:
    """From when on which version answered forecasts."""

    published_at: datetime
    version: int
