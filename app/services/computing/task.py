"""What a fit computes, independent of where: a pure task in, an artefact and its report out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from typing_extensions import override

import models
from app.domain.fits import Candidate, FitProblem, FitRequest
from app.domain.identifiers import RunId, Slug
from app.domain.regressors import (
    Convergence,
    Jitter,
    MemoryEvidence,
    OutlierRun,
    PoolingUse,
    RegressorReport,
    RunEvidence,
    Shift,
    UnfinishedUse,
)
from app.domain.workloads import Pooling
from models import Evidence, HardwareDescription, RunTable, WorkloadSummary

OnProgress = Callable[[float, str], None]
"""Called with the fraction done (0..1) and the step; ends the computation by raising."""


@dataclass(frozen=True, slots=True)
class Incumbent:
    """The version that is published while a fit is computed, with its artefact."""

    version: int
    artifact: bytes


@dataclass(frozen=True, slots=True)
class Pool:
    """The sources of a fit's priors: the project's other workloads, and public ones."""

    mode: Pooling
    summaries: tuple[WorkloadSummary, ...] = ()


@dataclass(frozen=True, slots=True)
class FitTask:
    """Everything that a fit is computed from: arrays and numbers, no database or files.

    `incumbent` is the published version that the new regressor must beat, None where it need not.
    """

    request: FitRequest
    runs: RunTable
    hardware: Mapping[str, HardwareDescription]
    evidence: Evidence | None = None
    incumbent: Incumbent | None = None
    pool: Pool = Pool(Pooling.OFF)


@dataclass(frozen=True, slots=True)
class Contest:
    """The new regressor compared with the published one on the same folds; MAPE as fractions."""

    incumbent_version: int
    challenger_mape: float | None
    incumbent_mape: float | None
    is_better: bool


@dataclass(frozen=True, slots=True)
class FitOutcome:
    """A fitted regressor as data, its report, and whether it beat the published one.

    `format_version` is the artefact's, `summary` what the workload contributes to the priors of
    others.
    """

    artifact: bytes
    format_version: int
    report: RegressorReport
    contest: Contest | None = None
    summary: Mapping[str, Any] | None = None


class FitRefusedError(Exception):
    """The runs or the request cannot be fitted; retrying would not help."""

    def __init__(self, problem: FitProblem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class ComputationLostError(Exception):
    """The process that computed a fit died; retrying may help."""


class ComputerRefusedError(Exception):
    """The place where fits are computed can never compute them; `remedy` says what would help."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class OtherVersionsError(ComputerRefusedError):
    """The nodes of the Ray cluster have other versions."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"The Ray cluster cannot compute for this fitter: {reason}",
            "Install the same versions of Python, Ray and Trainfare on the fitter and every node.",
        )


class Computer(Protocol):
    """Computes fits somewhere: in this process or in another."""

    @property
    def waits_for(self) -> str | None:
        """What was missing at the last readiness check, None for nothing; answers at once."""
        return None

    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        """Return the outcome of a task.

        `on_progress` is called regularly, and ends the computation by raising.

        Raises
        ------
        FitRefusedError
            If the task cannot be computed at all.
        ComputationLostError
            If the computation died on the way.
        ComputerRefusedError
            If it would be computed by another release.
        """

    def is_ready(self) -> bool:
        """Whether a fit can be computed now; asked before each claim, and may take a while.

        A remote place may be unreachable for a while: no fit should lose an attempt to that.

        Raises
        ------
        ComputerRefusedError
            If it will never be ready.
        """
        return True

    def close(self) -> None:
        """Release the computer's resources; it is not used afterwards."""


def require_own_format(outcome: FitOutcome) -> FitOutcome:
    """Return an outcome from elsewhere, provided that this release can read its artefact.

    Any other would be published, then taken for an earlier release's and fitted again, forever.

    Raises
    ------
    OtherVersionsError
        If another release computed it.
    """
    if outcome.format_version != models.FORMAT_VERSION:
        raise OtherVersionsError(
            f"its nodes have another release of Trainfare, whose artefacts have format"
            f" {outcome.format_version}, not {models.FORMAT_VERSION}."
        )
    return outcome


class InProcessComputer(Computer):
    """Computes in the calling process."""

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        return compute_fit(task, on_progress)

    @override
    def close(self) -> None:
        pass


def compute_fit(
    task: FitTask, on_progress: OnProgress, fold_map: models.FoldMap = map
) -> FitOutcome:
    """Fit the portfolio, compare it with the incumbent if there is one, and serialize it.

    `fold_map` determines where held-out sets are forecast; the outcome is the same everywhere.

    Raises
    ------
    FitRefusedError
        If there are too few runs, no regressor can be fitted on them, or its artefact cannot be
        read back.
    """
    request = task.request
    try:
        portfolio = models.fit_portfolio(
            task.runs,
            seed=request.seed,
            time_budget_s=request.time_budget_s,
            regressors=request.regressors,
            hardware=task.hardware,
            evidence=task.evidence,
            prior=_prior(task),
            on_progress=on_progress,
            fold_map=fold_map,
        )
    except models.NotEnoughRunsError as error:
        raise FitRefusedError(FitProblem("no_regressor", str(error))) from error
    except (models.NothingFittedError, models.UnknownRegressorError) as error:
        raise FitRefusedError(FitProblem("fit_failed", str(error))) from error
    artifact = models.dumps(portfolio)
    try:
        models.loads(artifact)
    except models.ArtifactError as error:
        # An unreadable artefact must not replace a working one.
        raise FitRefusedError(FitProblem("fit_failed", str(error))) from error
    return FitOutcome(
        artifact=artifact,
        format_version=models.FORMAT_VERSION,
        report=_report(portfolio, request.seed, task.pool.mode),
        contest=_contest(portfolio, task),
        summary=_summary(task.runs, portfolio).to_document(),
    )


def _summary(runs: models.RunTable, portfolio: models.FittedPortfolio) -> models.WorkloadSummary:
    """Return what other workloads learn from this one: how it behaves today."""
    changes = portfolio.report.evidence.change_points
    return models.summarise(models.at_present(runs, changes), "")


def _prior(task: FitTask) -> models.PooledPrior | None:
    if task.pool.mode is Pooling.OFF:
        return None
    factory = models.factory_summaries()
    return models.PooledPrior.from_summaries(task.pool.summaries, task.hardware, factory)


def _pooling(report: models.PoolingReport | None, mode: Pooling) -> PoolingUse:
    if report is None:
        return PoolingUse(mode)
    workloads = tuple(Slug(name) for name in report.contributors)
    return PoolingUse(mode, workloads, report.factory, report.prior_hash)


def _contest(portfolio: models.FittedPortfolio, task: FitTask) -> Contest | None:
    if task.incumbent is None:
        return None
    version = task.incumbent.version
    try:
        incumbent = models.loads(task.incumbent.artifact)
    except models.ArtifactError:
        # An unreadable regressor answers no forecasts either: anything is better.
        return Contest(version, None, None, is_better=True)
    comparison = models.compare(portfolio, incumbent, task.runs)
    return Contest(
        version,
        challenger_mape=_finite(comparison.challenger_mape),
        incumbent_mape=_finite(comparison.incumbent_mape),
        is_better=comparison.is_better,
    )


def _finite(number: float) -> float | None:
    """Return a number as JSON can hold it: None if it is not finite."""
    return float(number) if math.isfinite(number) else None


def _finite_items(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: float(number) for name, number in numbers.items() if math.isfinite(number)}


def _candidate(report: models.CandidateReport) -> Candidate:
    return Candidate(
        regressor=report.regressor,
        weight=float(report.weight),
        mape=_finite(report.mape),
        by_axis=_finite_items(report.by_axis),
    )


def _evidence(report: models.EvidenceReport) -> RunEvidence:
    memory, unfinished = report.memory, report.unfinished
    return RunEvidence(
        memory=None
        if memory is None
        else MemoryEvidence(memory.peaks, memory.out_of_memory, memory.succeeded),
        unfinished=UnfinishedUse(
            unfinished.as_bounds, unfinished.by_progress, unfinished.uninformative
        ),
        incomplete=report.incomplete,
        change_points=tuple(
            Shift(datetime.fromtimestamp(change.at, UTC), math.exp(change.shift))
            for change in report.change_points
        ),
        outliers=tuple(
            OutlierRun(RunId(outlier.run_id), outlier.ratio) for outlier in report.outliers
        ),
    )


def _convergence(law: models.ConvergenceLaw | None) -> Convergence | None:
    if law is None:
        return None
    return Convergence(law.n_runs, *law.batch_sizes, *law.noise_scale())


def _jitter(portfolio: models.FittedPortfolio) -> Jitter | None:
    if portfolio.jitter is None:
        return None
    return Jitter(*portfolio.jitter.parts(portfolio.center))


def _report(portfolio: models.FittedPortfolio, seed: int, mode: Pooling) -> RegressorReport:
    report = portfolio.report
    floor = report.noise_floor
    return RegressorReport(
        training_fingerprint=report.training_fingerprint,
        n_runs=report.n_runs,
        n_configurations=report.n_configurations,
        library_versions=dict(report.library_versions),
        numeric_ranges={
            name: (float(low), float(high)) for name, (low, high) in report.numeric_ranges.items()
        },
        category_levels={name: tuple(levels) for name, levels in report.category_levels.items()},
        candidates=tuple(_candidate(candidate) for candidate in report.candidates),
        failed_candidates=dict(report.failed_candidates),
        accuracy_by_axis=_finite_items(report.accuracy_by_axis),
        coverage=_finite_items(report.coverage),
        noise_floor=None if floor is None else _finite(floor),
        seed=seed,
        evidence=replace(
            _evidence(report.evidence),
            convergence=_convergence(portfolio.convergence),
            jitter=_jitter(portfolio),
        ),
        pooling=_pooling(report.pooling, mode),
    )
