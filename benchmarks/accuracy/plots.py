"""Plots of judged tasks as SVG: predicted against measured durations, and scaling curves."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from benchmarks.accuracy.judging import SEED, Judgement
from benchmarks.accuracy.tables import geometric_mean
from benchmarks.accuracy.traces import Row, Task, to_tables
from models import FeatureTable, FloatArray, HardwareDescription, PooledPrior, fit_portfolio

_MEASURED, _HELD_OUT, _FORECAST = "#1f4e79", "#c0392b", "#5b8db8"
_CURVE_POINTS = 41
_MARGIN = 1.15
_TITLE = 9.0


def draw_points(judgements: Sequence[Judgement], folder: Path) -> list[Path]:
    """Draw forecasts against measured durations, one file per data set and kind."""
    panels: dict[tuple[str, str], list[Judgement]] = {}
    for item in judgements:
        panels.setdefault((item.data_set, item.kind), []).append(item)
    paths = []
    for (data_set, kind), members in sorted(panels.items()):
        figure, axes = _figure(4.6, 4.4)
        _draw_points(axes, members)
        error = geometric_mean([item.mape for item in members])
        axes.set_title(f"{data_set}, {kind}: error {error:.1%}", fontsize=_TITLE)
        paths.append(_save(figure, folder / f"{data_set}-{kind}-points.svg"))
    return paths


def draw_curve(
    task: Task,
    hardware: Mapping[str, HardwareDescription],
    prior: PooledPrior | None,
    time_budget_s: float,
    folder: Path,
) -> Path | None:
    """Draw the forecast along the axis that a task extrapolates, None if it is a category.

    All else is held at the configuration that was measured at the most levels of the axis.
    """
    train, test = to_tables(task)
    if task.kind != "extrapolation" or task.axis not in train.features.numeric:
        return None
    known, held_out = _along_axis(task)
    # Two levels form a line whatever the law.
    if len(known) + len(held_out) < 3:  # noqa: PLR2004 - see above
        return None
    portfolio = fit_portfolio(
        train, seed=SEED, time_budget_s=time_budget_s, hardware=hardware, prior=prior
    )
    known_values, held_out_values = (_values(rows, task.axis) for rows in (known, held_out))
    levels = np.concatenate([known_values, held_out_values])
    values = np.geomspace(levels.min(), levels.max() * _MARGIN, _CURVE_POINTS)
    row = int(np.flatnonzero(_is_row(test.run_ids, held_out[0]))[0])
    forecast = portfolio.predict(_vary(test.features, row, task.axis, values))
    figure, axes = _figure(4.6, 3.6)
    lower, upper = forecast.interval(0.9)
    axes.fill_between(values, lower, upper, color=_FORECAST, alpha=0.2, lw=0, label="90% interval")
    axes.plot(values, forecast.median(), color=_FORECAST, label="forecast")
    axes.scatter(known_values, _seconds(known), s=14, color=_MEASURED, label="measured, known")
    axes.scatter(
        held_out_values,
        _seconds(held_out),
        s=18,
        marker="D",
        color=_HELD_OUT,
        label="measured, held out",
    )
    axes.set_title(_title(task), fontsize=_TITLE)
    axes.set(xscale="log", yscale="log", xlabel=task.axis, ylabel="seconds")
    _label_plainly(axes)
    axes.set_xticks(np.unique(levels), [f"{value:g}" for value in np.unique(levels)])
    axes.legend(frameon=False, fontsize=8)
    return _save(figure, folder / f"{task.name.replace('/', '-')}-curve.svg")


def _title(task: Task) -> str:
    return f"{task.name.split('/')[1]} beyond the measured {task.axis}"


def _draw_points(axes: Axes, members: Sequence[Judgement]) -> None:
    observed, predicted, lower, upper = (
        np.concatenate([np.array(getattr(item.points, name)) for item in members])
        for name in ("observed", "predicted", "lower", "upper")
    )
    axes.vlines(observed, lower, upper, color=_FORECAST, alpha=0.35, lw=0.8, label="90% interval")
    axes.scatter(observed, predicted, s=8, color=_MEASURED, label=f"{len(observed)} runs", zorder=3)
    ends = [observed.min() / _MARGIN, observed.max() * _MARGIN]
    axes.plot(ends, ends, color="black", lw=0.8)
    axes.set(xscale="log", yscale="log", xlabel="measured seconds", ylabel="forecast seconds")
    _label_plainly(axes)
    axes.legend(frameon=False, fontsize=8)


def _along_axis(task: Task) -> tuple[list[Row], list[Row]]:
    """Return known and held-out runs that differ only in the axis, with the most levels."""
    groups: dict[tuple[str, ...], tuple[list[Row], list[Row]]] = {}
    for side, rows in enumerate((task.train, task.test)):
        for row in rows:
            groups.setdefault(_fixed_values(row, task.axis), ([], []))[side].append(row)
    complete = [sides for sides in groups.values() if all(sides)]
    if not complete:
        return [], []
    return max(complete, key=lambda sides: len({row[task.axis] for rows in sides for row in rows}))


def _fixed_values(row: Row, axis: str) -> tuple[str, ...]:
    outcomes = ("run_id", "external_id", "started_at", "duration_seconds", "cost_usd", axis)
    return tuple(
        value
        for name, value in sorted(row.items())
        if name not in outcomes and not name.startswith(("phase.", "label."))
    )


def _vary(features: FeatureTable, row: int, axis: str, values: FloatArray) -> FeatureTable:
    repeated = features.take(np.full(len(values), row))
    return FeatureTable({**repeated.numeric, axis: values}, repeated.categorical, len(values))


def _is_row(run_ids: Sequence[str], row: Row) -> list[bool]:
    return [run_id == row["run_id"] for run_id in run_ids]


def _values(rows: Sequence[Row], axis: str) -> FloatArray:
    return np.array([float(row[axis]) for row in rows])


def _seconds(rows: Sequence[Row]) -> FloatArray:
    return np.array([float(row["duration_seconds"]) for row in rows])


def _label_plainly(axes: Axes) -> None:
    """Label ticks at ones, twos and fives as plain numbers."""
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_locator(NullLocator())


def _style() -> AbstractContextManager[None]:
    return mpl.rc_context(
        {
            # The same forecasts give the same bytes.
            "svg.hashsalt": "trainfare",
            "svg.fonttype": "none",
            "font.size": 9.0,
            "axes.grid": True,
            "grid.alpha": 0.3,
        }
    )


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    with _style():
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.add_subplot()


def _save(figure: Figure, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with _style():
        figure.savefig(path, metadata={"Date": None})
    return path
