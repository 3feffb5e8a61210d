"""What a fit and a forecast say about themselves: accuracy, ranges, support."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

Basis = Literal["measured", "interpolated", "extrapolated", "transferred", "prior"]


@dataclass(frozen=True, slots=True)
class CandidateReport:
    """One regressor of the portfolio: its weight in interpolation and its held-out errors.

    `mape` is a fraction (0.12) over all held-out configurations, NaN if none were held out;
    `by_axis` splits it by the kind of question, named as in `FitReport.accuracy_by_axis`.
    """

    regressor: str
    weight: float
    mape: float
    by_axis: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class PoolingReport:
    """What a prior was learned from.

    Parameters
    ----------
    contributors
        The workloads of the project, sorted.
    factory
        How many public workloads took part.
    prior_hash
        SHA-256 (hex) of all summaries and specifications.
    """

    contributors: tuple[str, ...]
    factory: int
    prior_hash: str


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """Numbers of runs behind a memory law: with a peak, out of memory, succeeded without a peak."""

    peaks: int
    out_of_memory: int
    succeeded: int


@dataclass(frozen=True, slots=True)
class UnfinishedCounts:
    """How unfinished runs were used.

    Numbers of informative lower bounds, of estimates from progress (elapsed / progress), and of
    runs that were left out as uninformative.
    """

    as_bounds: int = 0
    by_progress: int = 0
    uninformative: int = 0


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A shift of all durations, in log units, from the run that started at `at` (seconds) on."""

    at: float
    shift: float


@dataclass(frozen=True, slots=True)
class Outlier:
    """A run far from the repetitions of its configuration or, without any, from all other runs.

    Of two repetitions, it is the one that the other configurations contradict. `ratio` is its
    duration over that of the repetitions (of two: the other one) or over what the other runs imply;
    `beside` names the configuration by a run, as `nearest_run_ids` do.
    """

    run_id: str
    ratio: float
    beside: str


@dataclass(frozen=True, slots=True)
class EvidenceReport:
    """What the fit took from runs besides their durations, and what it found odd about them.

    `incomplete` counts the runs that were set aside because they leave out values that others give;
    the fit does not use them.
    """

    memory: MemoryCounts | None = None
    unfinished: UnfinishedCounts = UnfinishedCounts()
    incomplete: int = 0
    change_points: tuple[ChangePoint, ...] = ()
    outliers: tuple[Outlier, ...] = ()


@dataclass(frozen=True, slots=True)
class FitReport:
    """What was fitted on what, and how well it forecast what it had not seen.

    Parameters
    ----------
    n_runs, n_configurations
        Runs, and distinct configurations among them.
    candidates
        Every regressor that could be fitted.
    accuracy_by_axis
        Held-out MAPE (a fraction) of the combined forecast for each kind of question:
        ``interpolation``, beyond the range of a numeric axis, on a level with few runs.
    coverage
        Share of held-out configurations inside the interval, by level (``"0.8"``, ``"0.9"``).
    noise_floor
        Log standard deviation of repetitions of one configuration, None without repetitions.
    numeric_ranges, category_levels
        Measured minimum and maximum, and measured levels, of each column.
    training_fingerprint
        SHA-256 (hex) of the runs, the same for any order of rows and columns.
    library_versions
        Versions of Python and the numerical libraries.
    failed_candidates
        Name of a regressor to the reason why it takes no part in the forecast; under
        ``held_out_sets``, how many held-out sets the time budget left out.
    pooling
        What the priors were learned from, None if from physics alone.
    evidence
        Memory, unfinished runs, change points, outliers.
    """

    n_runs: int
    n_configurations: int
    candidates: tuple[CandidateReport, ...]
    accuracy_by_axis: Mapping[str, float]
    coverage: Mapping[str, float]
    noise_floor: float | None
    numeric_ranges: Mapping[str, tuple[float, float]]
    category_levels: Mapping[str, tuple[str, ...]]
    training_fingerprint: str
    library_versions: Mapping[str, str]
    failed_candidates: Mapping[str, str]
    pooling: PoolingReport | None = None
    evidence: EvidenceReport = EvidenceReport()


class AxisSupport(NamedTuple):
    """A numeric column asked outside its measured range.

    `distance` is how far beyond the range it lies, in units of the range's width, on the scale
    (mostly logarithmic) on which the regressors see the column; positive.
    """

    name: str
    asked: float
    measured_min: float
    measured_max: float
    distance: float


RareLevels = tuple[tuple[str, str | None], ...]
"""Levels that few runs have, each with its column; None for a question without a value."""


class Support(NamedTuple):
    """How well the runs support one forecast.

    Parameters
    ----------
    within_range
        No axis outside, no unseen level and nothing unidentified.
    axes
        The axes outside their measured range, farthest first.
    unseen_levels
        (column, level) pairs that no run has.
    rare_levels
        (column, level) pairs that few runs have.
    unidentified
        Columns whose effect the runs cannot show: constant in the runs but asked at another value,
        varied separately although they varied together in all runs, unknown to the fit, or left
        out of the question.
    nearest_run_ids
        Up to three runs whose configurations resemble the question most.
    basis
        Where the forecast comes from; the weakest link decides.
    """

    within_range: bool
    axes: tuple[AxisSupport, ...]
    unseen_levels: tuple[tuple[str, str], ...]
    rare_levels: RareLevels
    unidentified: tuple[str, ...]
    nearest_run_ids: tuple[str, ...]
    basis: Basis
