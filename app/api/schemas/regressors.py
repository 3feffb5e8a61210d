"""Responses about regressor versions."""

from dataclasses import asdict
from datetime import datetime
from typing import Literal

from app.api.schemas.base import ResponseModel
from app.api.schemas.fits import CandidateOut
from app.domain.pages import Page
from app.domain.regressors import (
    PoolingUse,
    RegressorReport,
    RegressorVersion,
    RunEvidence,
)
from app.domain.workloads import Pooling


class FeatureOut(ResponseModel):
    """A feature that the regressor was fitted on, with its measured range or levels."""

    name: str
    kind: Literal["number", "category"]
    min: float | None = None
    max: float | None = None
    levels: list[str] | None = None


def _features(report: RegressorReport) -> list[FeatureOut]:
    numbers = [
        FeatureOut(name=name, kind="number", min=low, max=high)
        for name, (low, high) in report.numeric_ranges.items()
    ]
    categories = [
        FeatureOut(name=name, kind="category", levels=list(levels))
        for name, levels in report.category_levels.items()
    ]
    return sorted(numbers + categories, key=lambda feature: feature.name)


class MemoryEvidenceOut(ResponseModel):
    """The numbers of runs that the feasibility forecast rests on."""

    measured_peaks: int
    out_of_memory: int
    succeeded: int


class UnfinishedUseOut(ResponseModel):
    """How preempted, timed-out and cancelled runs were used."""

    as_lower_bounds: int
    by_progress: int
    uninformative: int


class ShiftOut(ResponseModel):
    """A change point: from `at` on, durations were `factor` times what they had been."""

    at: datetime
    factor: float


class OutlierOut(ResponseModel):
    """A run that took `ratio` times what its repetitions, or all other runs, suggest."""

    run_id: str
    ratio: float


class ConvergenceOut(ResponseModel):
    """Gradient noise scale from samples to target, in samples, with its 90 % interval."""

    runs: int
    smallest_batch: float
    largest_batch: float
    noise_scale: float
    noise_scale_lower: float
    noise_scale_upper: float


class JitterOut(ResponseModel):
    """Noise in seconds, independent of a run's duration, and the relative noise beside it."""

    relative: float
    seconds: float


class EvidenceOut(ResponseModel):
    """What the fit used besides complete durations, and anomalies that it found.

    `incomplete` counts runs that were set aside because they lack values that other runs report.
    """

    memory: MemoryEvidenceOut | None
    unfinished: UnfinishedUseOut
    incomplete: int
    change_points: list[ShiftOut]
    outliers: list[OutlierOut]
    convergence: ConvergenceOut | None
    jitter: JitterOut | None


def _evidence(evidence: RunEvidence) -> EvidenceOut:
    memory, convergence, jitter = evidence.memory, evidence.convergence, evidence.jitter
    return EvidenceOut(
        memory=None if memory is None else MemoryEvidenceOut(**asdict(memory)),
        unfinished=UnfinishedUseOut(**asdict(evidence.unfinished)),
        incomplete=evidence.incomplete,
        change_points=[ShiftOut(**asdict(change)) for change in evidence.change_points],
        outliers=[OutlierOut(**asdict(outlier)) for outlier in evidence.outliers],
        convergence=None if convergence is None else ConvergenceOut(**asdict(convergence)),
        jitter=None if jitter is None else JitterOut(**asdict(jitter)),
    )


class PoolingOut(ResponseModel):
    """The workloads that the priors were learned from: of the project, and public ones."""

    mode: Pooling
    workloads: list[str]
    factory_workloads: int
    prior_sha256: str | None

    @classmethod
    def of(cls, use: PoolingUse) -> "PoolingOut":
        """Return the schema of a use of pooling."""
        return cls(
            mode=use.mode,
            workloads=list(use.workloads),
            factory_workloads=use.factory_workloads,
            prior_sha256=use.prior_sha256,
        )


class RegressorOut(ResponseModel):
    """A regressor version; errors are held-out MAPE as fractions, coverage is by confidence level.

    `artifact_kept` is false once the artefact was pruned: the version can no longer answer.
    """

    workload: str
    version: int
    published: bool
    created_at: datetime
    fit_id: str
    training_fingerprint: str
    runs_used: int
    configurations_used: int
    features: list[FeatureOut]
    accuracy_by_axis: dict[str, float]
    coverage: dict[str, float]
    noise_floor: float | None
    candidates: list[CandidateOut]
    failed_candidates: dict[str, str]
    evidence: EvidenceOut
    seed: int
    pooling: PoolingOut
    library_versions: dict[str, str]
    artifact_sha256: str
    artifact_bytes: int
    artifact_kept: bool

    @classmethod
    def of(cls, version: RegressorVersion) -> "RegressorOut":
        """Return the schema of a regressor version."""
        return cls(
            workload=version.workload,
            version=version.version,
            published=version.is_published,
            created_at=version.created_at,
            fit_id=version.fit_id,
            training_fingerprint=version.training_fingerprint,
            runs_used=version.n_runs,
            configurations_used=version.n_configurations,
            features=_features(version),
            accuracy_by_axis=dict(version.accuracy_by_axis),
            coverage=dict(version.coverage),
            noise_floor=version.noise_floor,
            candidates=[CandidateOut.of(candidate) for candidate in version.candidates],
            failed_candidates=dict(version.failed_candidates),
            evidence=_evidence(version.evidence),
            seed=version.seed,
            pooling=PoolingOut.of(version.pooling),
            library_versions=dict(version.library_versions),
            artifact_sha256=version.artifact_sha256,
            artifact_bytes=version.artifact_bytes,
            artifact_kept=version.is_artifact_kept,
        )


class RegressorsOut(ResponseModel):
    """A page of regressor versions."""

    regressors: list[RegressorOut]
    next_page_token: str | None

    @classmethod
    def of(cls, page: Page[RegressorVersion]) -> "RegressorsOut":
        """Return the schema of a page."""
        return cls(
            regressors=[RegressorOut.of(version) for version in page.items],
            next_page_token=page.next_key,
        )
