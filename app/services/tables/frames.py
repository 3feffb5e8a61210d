"""Turns runs and scenarios into the tables of the regression library."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TypeVar

import numpy as np

from app.domain.alike import AlikeScenarios
from app.domain.columns import Repeated
from app.domain.configurations import (
    CATEGORY_FEATURES,
    MAX_PARAMETER,
    NUMERIC_FEATURES,
    Configuration,
    ParameterValue,
    Scenario,
)
from app.domain.flat_fields import PARAMETER
from app.domain.runs import EvidenceColumns, RunColumns, RunStatus
from app.pricing import gpus
from models import (
    ConvergenceRuns,
    Evidence,
    FeatureTable,
    FitReport,
    FloatArray,
    HardwareDescription,
    IntArray,
    MemoryRuns,
    PhaseRuns,
    RunTable,
    UnfinishedRuns,
    mean_description,
)

_MEMORY_STATUSES = frozenset({RunStatus.SUCCEEDED, RunStatus.OUT_OF_MEMORY})
_FAR = 1e6
_STOPPED_STATUSES = frozenset({RunStatus.PREEMPTED, RunStatus.TIMED_OUT, RunStatus.CANCELLED})

_Number = float | int | None
Given = TypeVar("Given")


def _numeric(values: Sequence[_Number]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def _has_value(values: Iterable[object]) -> bool:
    return any(value is not None for value in values)


def _level(value: ParameterValue | None) -> str | None:
    return None if value is None else str(value)


def _build(
    numeric: Mapping[str, Sequence[_Number]],
    categorical: Mapping[str, Sequence[str | None]],
    parameters: Sequence[Mapping[str, ParameterValue]],
) -> FeatureTable:
    """Return the table of the columns that hold any value."""
    numbers = {name: _numeric(values) for name, values in numeric.items() if _has_value(values)}
    levels = {name: list(values) for name, values in categorical.items() if _has_value(values)}
    for name in sorted({name for row in parameters for name in row}):
        values = [row.get(name) for row in parameters]
        numbers_only = [value for value in values if not isinstance(value, str)]
        if len(numbers_only) == len(values):
            numbers[PARAMETER + name] = _numeric(numbers_only)
        else:
            levels[PARAMETER + name] = [_level(value) for value in values]
    return FeatureTable(numbers, levels, len(parameters))


def run_table(columns: RunColumns) -> RunTable:
    """Return the runs of a workload as the table that a portfolio is fitted on.

    A run without a start time is placed at the instant of its upload.
    """
    return RunTable(
        features=_features(columns),
        duration_seconds=np.array(columns.duration_seconds, dtype=np.float64),
        run_ids=list(columns.run_ids),
        started_at=_started_at(columns),
    )


def _started_at(columns: RunColumns) -> FloatArray:
    """Return when each run began, in seconds since 1970."""
    times = zip(columns.started_at, columns.created_at, strict=True)
    seconds = [(started_at or stored_at).timestamp() for started_at, stored_at in times]
    return np.array(seconds, dtype=np.float64)


def evidence(columns: EvidenceColumns) -> Evidence:
    """Return what a workload's runs show besides complete durations."""
    features = _features(columns.runs)
    memory = _rows(columns, _MEMORY_STATUSES)
    stopped = _rows(columns, _STOPPED_STATUSES)
    is_out = [status is RunStatus.OUT_OF_MEMORY for status in columns.status]
    peaks, progress = _numeric(columns.peak_memory_bytes), _numeric(columns.progress)
    return Evidence(
        MemoryRuns(
            features.take(memory),
            np.array(is_out, dtype=np.bool_)[memory],
            np.where(peaks > 0, peaks, np.nan)[memory],
        ),
        UnfinishedRuns(
            features.take(stopped),
            np.array(columns.runs.duration_seconds, dtype=np.float64)[stopped],
            progress[stopped],
            [columns.runs.run_ids[row] for row in stopped],
            _started_at(columns.runs)[stopped],
        ),
        _convergence(columns),
        _phases(columns, features),
    )


def _phases(columns: EvidenceColumns, features: FeatureTable) -> PhaseRuns | None:
    """Return the succeeded runs that state their phases, None if there are none."""
    rows = [
        row
        for row, (status, phases) in enumerate(zip(columns.status, columns.phases, strict=True))
        if status is RunStatus.SUCCEEDED and phases
    ]
    if not rows:
        return None
    names = sorted({name for row in rows for name in columns.phases[row]})
    return PhaseRuns(
        features.take(np.array(rows, dtype=np.int64)),
        np.array([columns.runs.duration_seconds[row] for row in rows], dtype=np.float64),
        {
            name.removesuffix("_seconds"): _numeric([columns.phases[row].get(name) for row in rows])
            for name in names
        },
    )


def _convergence(columns: EvidenceColumns) -> ConvergenceRuns:
    """Return the succeeded runs that state how many samples their target took."""
    sizes = _numeric(columns.runs.dataset_size)
    samples, epochs = _numeric(columns.samples_to_target), _numeric(columns.epochs_to_target)
    samples = np.where(np.isnan(samples), epochs * sizes, samples)
    batches = _numeric(columns.runs.batch_size)
    succeeded = np.array([status is RunStatus.SUCCEEDED for status in columns.status], dtype=bool)
    rows = np.flatnonzero(succeeded & ~np.isnan(batches) & ~np.isnan(samples))
    return ConvergenceRuns(batches[rows], samples[rows])


def _rows(columns: EvidenceColumns, wanted: frozenset[RunStatus]) -> IntArray:
    chosen = [row for row, status in enumerate(columns.status) if status in wanted]
    return np.array(chosen, dtype=np.int64)


def _features(columns: RunColumns) -> FeatureTable:
    numeric: dict[str, Sequence[_Number]] = {
        name: getattr(columns, name) for name in NUMERIC_FEATURES
    }
    categorical: dict[str, Sequence[str | None]] = {
        name: getattr(columns, name) for name in CATEGORY_FEATURES
    }
    categorical["gpu_type"] = gpus.canonical_gpu_names(columns.gpu_type)
    return _build(numeric, categorical, columns.parameters)


def _numbers_of(scenario: Scenario) -> tuple[_Number, ...]:
    """Return the values of `NUMERIC_FEATURES`, in that order."""
    configuration, work = scenario.configuration, scenario.work
    return (
        configuration.workers,
        configuration.nodes,
        work.dataset_size,
        work.batch_size,
        work.epochs,
    )


def scenario_features(scenarios: Sequence[Scenario]) -> FeatureTable:
    """Return scenarios as the table of a forecast's questions, one row each."""
    if len(scenarios) == 1:
        return _single(scenarios[0])
    columns = list(zip(*map(_numbers_of, scenarios), strict=True)) or [()] * len(NUMERIC_FEATURES)
    categorical = {
        "gpu_type": [scenario.configuration.gpu_type for scenario in scenarios],
        "instance_type": [scenario.configuration.instance_type for scenario in scenarios],
    }
    return _build(
        dict(zip(NUMERIC_FEATURES, columns, strict=True)),
        categorical,
        [scenario.parameters for scenario in scenarios],
    )


def alike_features(scenarios: AlikeScenarios) -> FeatureTable:
    """Return the same as `scenario_features`, for at least two scenarios of one form."""
    numeric, categorical = _of_configurations(scenarios.configurations)
    for name, column in scenarios.work.items():
        if _has_value(_distinct(column)):
            numeric[name] = _floats(column)
    for name, values in sorted(scenarios.parameters.items()):
        if str in set(map(type, _distinct(values))):
            categorical[PARAMETER + name] = list(map(_level, values))
        else:
            numeric[PARAMETER + name] = _floats(values)
    return FeatureTable(numeric, categorical, len(scenarios))


def _distinct(column: Sequence[Given]) -> Sequence[Given]:
    return column.distinct if isinstance(column, Repeated) else column


def _floats(column: Sequence[_Number | str]) -> FloatArray:
    """Return the numbers of a column, NaN where it has none."""
    numbers = np.array(_distinct(column), dtype=np.float64)
    if isinstance(column, Repeated):
        return numbers.take(np.frombuffer(column.places, dtype=np.int64))
    return numbers


def _of_configurations(
    configurations: Repeated[Configuration],
) -> tuple[dict[str, FloatArray], dict[str, Sequence[str | None]]]:
    """Return the numeric and categorical columns that at least one configuration fills."""
    distinct, places = configurations.distinct, configurations.places
    rows = np.frombuffer(places, dtype=np.int64)
    numbers: dict[str, Sequence[_Number]] = {
        "workers": [configuration.workers for configuration in distinct],
        "nodes": [configuration.nodes for configuration in distinct],
    }
    levels = {
        "gpu_type": [configuration.gpu_type for configuration in distinct],
        "instance_type": [configuration.instance_type for configuration in distinct],
    }
    return (
        {
            name: _numeric(column).take(rows)
            for name, column in numbers.items()
            if _has_value(column)
        },
        {
            name: [column[place] for place in places]
            for name, column in levels.items()
            if _has_value(column)
        },
    )


def far_questions(report: FitReport) -> FeatureTable:
    """Return questions at both ends of the measured range and far beyond it, to test a fit."""
    numeric = {}
    for name, (low, high) in report.numeric_ranges.items():
        ends = np.array([low, high, low / _FAR, high * _FAR])
        numeric[name] = np.clip(ends, -MAX_PARAMETER, MAX_PARAMETER)
    categorical = {
        name: [levels[0] if levels else None] * 4 for name, levels in report.category_levels.items()
    }
    return FeatureTable(numeric, categorical, 4)


def _single(scenario: Scenario) -> FeatureTable:
    """Return the table of one scenario; written out by hand, as every forecast passes here."""
    numeric: dict[str, FloatArray] = {}
    for name, number in zip(NUMERIC_FEATURES, _numbers_of(scenario), strict=True):
        if number is not None:
            numeric[name] = np.array([number], dtype=np.float64)
    categorical: dict[str, Sequence[str | None]] = {}
    configuration = scenario.configuration
    if configuration.gpu_type is not None:
        categorical["gpu_type"] = (configuration.gpu_type,)
    if configuration.instance_type is not None:
        categorical["instance_type"] = (configuration.instance_type,)
    for name, value in scenario.parameters.items():
        if isinstance(value, str):
            categorical[PARAMETER + name] = (value,)
        else:
            numeric[PARAMETER + name] = np.array([value], dtype=np.float64)
    return FeatureTable(numeric, categorical, 1)


def hardware_descriptions(names: Iterable[str | None] = ()) -> Mapping[str, HardwareDescription]:
    """Return the data sheets of the GPU types that the service knows, by canonical name.

    A name that covers several variants (V100: 16 or 32 GB) gets their geometric mean. That is close
    to each variant's rates, so runs under such a name inform about other types and the reverse. A
    board of `names` without a data sheet gets its chip's mean, with the memory stated in its name.
    """
    return with_boards(_listed_descriptions(), names)


def with_boards(
    sheets: Mapping[str, HardwareDescription], names: Iterable[str | None]
) -> Mapping[str, HardwareDescription]:
    """Return data sheets, with those of boards of `names` that have none but whose chip has."""
    of_chips: dict[str, HardwareDescription] = {}
    for name in {name for name in names if name is not None} - sheets.keys():
        boards, memory_gib = gpus.boards_of_chip(name) or ((), 0.0)
        if boards and all(board in sheets for board in boards):
            mean = mean_description([sheets[board] for board in boards])
            of_chips[name] = replace(mean, memory_gib=memory_gib)
    return {**sheets, **of_chips} if of_chips else sheets


def with_families(
    sheets: Mapping[str, HardwareDescription],
) -> Mapping[str, HardwareDescription]:
    """Return data sheets, with the means of the variants for names that cover several."""
    described = {
        name: [sheets[variant] for variant in variants if variant in sheets]
        for name, variants in gpus.families().items()
    }
    means = {name: mean_description(found) for name, found in described.items() if found}
    return {**means, **sheets}


@cache
def _listed_descriptions() -> Mapping[str, HardwareDescription]:
    sheets = {
        name: HardwareDescription(
            fp32_tflops=sheet.fp32_tflops,
            tensor_tflops=sheet.tensor_tflops,
            memory_gib=sheet.memory_gib,
            memory_bandwidth_gb_s=sheet.memory_bandwidth_gb_s,
        )
        for name, sheet in gpus.specifications().items()
    }
    return with_families(sheets)
