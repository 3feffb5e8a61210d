"""The documents exchanged: what is sent, and the fields of answers that can be relied on.

Answers are plain dictionaries, and may hold fields that are not named here.
"""

from __future__ import annotations

from typing import Any, TypedDict


class Configuration(TypedDict, total=False):
    """The cluster of a run or of a question; `workers` are processes, one GPU each."""

    gpu_type: str | None
    instance_type: str | None
    provider: str | None
    region: str | None
    purchase: str | None
    nodes: int | None
    workers: int


class Work(TypedDict, total=False):
    """What has to be done; `batch_size` is global, `dataset_size` in the workload's unit."""

    dataset_size: float | None
    batch_size: float | None
    epochs: float | None


class _MeasuredRun(TypedDict):
    workload: str
    duration_seconds: float


class MeasuredRun(_MeasuredRun, total=False):
    """A run to upload."""

    external_id: str
    status: str
    progress: float
    configuration: Configuration
    work: Work
    parameters: dict[str, float | str]
    phases: dict[str, float]
    resources: dict[str, float]
    cost: dict[str, str]
    started_at: str
    labels: dict[str, str]
    forecast_id: str


class Band(TypedDict):
    """Median and bounds in seconds, with the confidence of the bounds."""

    median: float
    lower: float
    upper: float
    confidence: float


class Assessment(TypedDict):
    """A run compared with its forecast."""

    verdict: str
    expected_seconds: Band | None
    ratio: float | None
    p_value: float | None
    reason: str | None


class UploadedRun(TypedDict):
    """One row of an upload as it was accepted."""

    row: int
    run_id: str | None
    workload: str
    external_id: str | None
    duplicate: bool
    assessment: Assessment


class UploadAnswer(TypedDict):
    """The result of an upload; `runs` is None beyond 1,000 rows."""

    created: int
    duplicates: int
    dry_run: bool
    runs: list[UploadedRun] | None
    invalid: list[dict[str, Any]]
    invalid_count: int
    warnings: list[dict[str, Any]]


class Run(TypedDict):
    """A stored run."""

    run_id: str
    workload: str
    external_id: str | None
    status: str
    duration_seconds: float
    progress: float | None
    configuration: Configuration
    work: Work
    parameters: dict[str, float | str]
    phases: dict[str, float]
    resources: dict[str, float]
    cost: dict[str, str] | None
    started_at: str | None
    labels: dict[str, str]
    forecast_id: str | None
    excluded: bool
    excluded_reason: str | None
    created_at: str


class Workload(TypedDict):
    """A workload as listed."""

    workload: str
    description: str
    dataset_unit: str | None
    parameters: dict[str, dict[str, str | None]]
    currency: str
    labels: dict[str, str]
    refit_policy: dict[str, Any]
    pooling: str
    runs: dict[str, int]
    published_version: int | None
    created_at: str
    updated_at: str


class WorkloadDetail(Workload):
    """A workload with its measured range, its regressor and its last fit."""

    features: dict[str, dict[str, Any]]
    regressor: dict[str, Any] | None
    last_fit: dict[str, Any] | None


class Fit(TypedDict):
    """A fit; `state` is queued, running, succeeded, failed or cancelled."""

    fit_id: str
    workload: str
    state: str
    progress: float
    step: str | None
    requested_at: str
    started_at: str | None
    ended_at: str | None
    request: dict[str, Any]
    candidates: list[dict[str, Any]]
    regressor_version: int | None
    published: bool | None
    problem: dict[str, str] | None


class Regressor(TypedDict):
    """A version in a workload's registry."""

    workload: str
    version: int
    published: bool
    created_at: str
    fit_id: str
    training_fingerprint: str
    runs_used: int
    configurations_used: int
    features: list[dict[str, Any]]
    accuracy_by_axis: dict[str, float]
    coverage: dict[str, float]


class Forecast(TypedDict):
    """Duration and cost of a configuration and its work."""

    forecast_id: str | None
    workload: str
    regressor_version: int
    fitted_at: str
    configuration: Configuration
    work: Work
    parameters: dict[str, float | str]
    duration_seconds: Band
    time_limit_seconds: float
    cost: dict[str, Any] | None
    feasibility: dict[str, Any]
    probability: dict[str, float | None]
    support: dict[str, Any]
    basis: str
    energy: dict[str, Any]
    explanation: list[dict[str, Any]]
    taught_by: list[dict[str, Any]] | None
    to_target: dict[str, Any] | None
    warnings: list[dict[str, str]]


class _AskedForecast(TypedDict):
    workload: str


class AskedForecast(_AskedForecast, total=False):
    """A question for a forecast; in a batch its `ref` is returned with the answer."""

    ref: str | int
    configuration: Configuration
    work: Work
    parameters: dict[str, float | str]
    confidence: float
    deadline_s: float
    budget: str
    pricing: dict[str, Any]
    regressor_version: int
    time_limit_quantile: float
    record: bool


class BatchEntry(TypedDict, total=False):
    """One answer of a batch: a forecast or a problem."""

    ref: str | int | None
    forecast: Forecast
    problem: dict[str, Any]


class BatchAnswer(TypedDict):
    """The answers in the order of the requests."""

    forecasts: list[BatchEntry]
    failed: int


class RecordedForecast(TypedDict):
    """An entry of the ledger: question and answer, and the runs that followed."""

    forecast_id: str
    workload: str
    regressor_version: int
    created_at: str
    request: dict[str, Any]
    forecast: Forecast
    runs: list[dict[str, Any]]


class Curve(TypedDict):
    """Forecasts along one axis, and the runs measured there."""

    workload: str
    over: str
    points: list[dict[str, Any]]
    measured: list[dict[str, Any]]


class Recommendation(TypedDict):
    """The best configurations; if none qualifies, `nearest` says what would have to change."""

    workload: str
    regressor_version: int
    objective: str
    confidence: float
    considered: int
    recommended: dict[str, Any] | None
    ranked: list[dict[str, Any]]
    pareto: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    rejected_count: int
    nearest: dict[str, Any] | None


class ProfilingPlan(TypedDict):
    """Which runs to measure next, in order, with price and expected narrowing."""

    workload: str
    regressor_version: int | None
    considered: int
    runs: list[dict[str, Any]]
    total_price: str | None
    width: float
    expected_width: float
    stop: dict[str, Any]
    warnings: list[dict[str, str]]


class Accuracy(TypedDict):
    """Whether earlier forecasts came true."""

    workload: str
    window_start: str
    window_end: str
    overall: dict[str, Any] | None
    within_range: dict[str, Any] | None
    outside_range: dict[str, Any] | None
    drift: dict[str, Any] | None


class Gpu(TypedDict):
    """A GPU's names and data sheet."""

    gpu_type: str
    specified: bool
    aliases: list[str]


class GpuDirectory(TypedDict):
    """All known GPUs, ambiguous names, and names without a data sheet."""

    gpus: list[Gpu]
    ambiguous: list[dict[str, Any]]
    unspecified: list[str]


class Price(TypedDict):
    """A dated price of an instance or a GPU."""

    price_id: str | None
    origin: str
    provider: str | None
    region: str | None
    instance_type: str | None
    gpu_type: str | None
    gpu_count: int | None
    price_per_hour: str
    purchase: str
    currency: str
    valid_from: str
    source: str


class CreatedPrices(TypedDict):
    """The prices as stored."""

    created: int
    prices: list[Price]


class Remaining(TypedDict):
    """How much longer a job under way takes."""

    workload: str
    regressor_version: int
    remaining_seconds: Band
    expected_remaining_seconds: float
    total_seconds: Band
    forecast_seconds: Band
    ratio: float
    ends_at: str
    latest_end: str
    warnings: list[dict[str, str]]


class Ranking(TypedDict):
    """A queue in order."""

    policy: str
    confidence: float
    ranked: list[dict[str, Any]]
    failed: int


class Allocation(TypedDict):
    """What each job gets, and which jobs get nothing."""

    objective: str
    objective_value: float | None
    exact: bool
    gap: float | None
    method: str
    capacity: dict[str, int]
    used: dict[str, int]
    allocated: list[dict[str, Any]]
    left_out: list[dict[str, Any]]
    left_out_types: list[dict[str, Any]]


class CapacityPlan(TypedDict):
    """Demand by GPU type, hour by hour."""

    confidence: float
    demand: list[dict[str, Any]]
    left_out: list[dict[str, Any]]


class CiReport(TypedDict):
    """A verdict on new runs; `exit_code` 1 fails the build."""

    report_id: str
    created_at: str
    verdict: str
    exit_code: int
    summary: str
    runs: list[dict[str, Any]]
    drift: list[dict[str, Any]]
    cost_change: dict[str, Any] | None
    comment_markdown: str
    fit: Fit | None
