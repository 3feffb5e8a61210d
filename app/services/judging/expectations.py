"""The expected durations of a CI report's runs: the forecast, refined by earlier repetitions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from app.decisions.repetitions import Repetitions, repetitions
from app.domain.ci import CONFIDENCE
from app.domain.identifiers import RunId
from app.domain.runs import Run
from app.pricing.resolution import PriceBook
from app.services.judging.bounds import MeasuredByWork, bound_of, measured_by_work
from app.services.judging.runs import (
    JudgedRuns,
    cells_of,
    judge_runs,
    run_digests,
    since_last_change,
)
from app.services.served_regressors import ServedRegressor
from models import FloatArray


@dataclass(frozen=True, slots=True)
class Expectations:
    """The expected duration of each judged run, in seconds, arrays of shape (rows,).

    `exceedance` is the probability that a new run takes as long as the observed one, or longer.
    """

    median: FloatArray
    lower: FloatArray
    upper: FloatArray
    exceedance: FloatArray


@dataclass(frozen=True, slots=True)
class Experience:
    """What the runs before a report say about the forecasts of its configurations.

    `numbers` maps digests to the numbers of configurations, `by_work` lists what was measured of
    each work.
    """

    seen: Repetitions | None
    numbers: dict[str, int]
    by_work: MeasuredByWork = field(default_factory=dict)


def experience(
    past: Sequence[Run],
    served: ServedRegressor,
    normal: float,
    fail_probability: float,
    book: PriceBook,
    acknowledged: frozenset[RunId] = frozenset(),
) -> Experience:
    """Return what earlier runs say about a regressor's forecasts.

    A run that the fit has not seen is not taken as normal if it is so slow that it would fail the
    gate; it becomes normal when somebody acknowledges it, or with the next fit. An acknowledged
    change may differ between configurations: the first acknowledged run of each sets its level.

    Parameters
    ----------
    past
        Usable runs, the oldest first.
    served
        The regressor.
    normal
        The log ratio that is normal, where one other than 0 was acknowledged.
    fail_probability
        The failure probability of the gate.
    book
        The prices of the project.
    acknowledged
        Which of the past runs somebody acknowledged.
    """
    runs = since_last_change(past, served)
    judged = judge_runs(runs, served, book)
    numbers: dict[str, int] = {}
    if not judged.rows:
        return Experience(None, numbers)
    usable = [runs[row] for row in judged.rows]
    cells = cells_of(run_digests(usable), judged, numbers)
    seen = repetitions(cells, served.portfolio.report.noise_floor)
    ratios = (judged.log_ratios() - normal).tolist()
    is_in_fit = True
    for run, ratio, cell in zip(usable, ratios, cells, strict=True):
        if is_in_fit and run.created_at > served.seen_until:
            is_in_fit = False
            seen.count_once()
        if run.run_id in acknowledged:
            seen.learn_acknowledged(ratio, cell)
            continue
        is_likely = seen.expect(cell).probability_above(ratio) >= fail_probability
        seen.learn(ratio, cell, is_normal=is_in_fit or is_likely)
    if is_in_fit:
        seen.count_once()
    return Experience(seen, numbers, measured_by_work(usable, cells, judged))


def expectations(
    runs: Sequence[Run], judged: JudgedRuns, past: Experience, normal: float
) -> Expectations:
    """Return what runs were expected to take.

    A configuration that was measured before is judged by the noise of repetitions around its own
    level; any other by the forecast's distribution, bounded by the same work on more workers.
    """
    factor = float(np.exp(normal))
    forecast = judged.forecast
    lower, upper = forecast.interval(CONFIDENCE)
    result = Expectations(
        median=factor * forecast.median(),
        lower=factor * lower,
        upper=factor * upper,
        exceedance=1.0 - forecast.probability_below(judged.observed_seconds / factor),
    )
    if past.seen is not None:
        _refine(result, runs, judged, past, normal)
    return result


def _refine(
    result: Expectations, runs: Sequence[Run], judged: JudgedRuns, past: Experience, normal: float
) -> None:
    assert past.seen is not None
    medians, ratios = result.median.copy(), judged.log_ratios() - normal
    tail = (1.0 - CONFIDENCE) / 2.0
    usable, numbers = [runs[row] for row in judged.rows], dict(past.numbers)
    for index, (run, cell) in enumerate(
        zip(usable, cells_of(run_digests(usable), judged, numbers), strict=True)
    ):
        if cell.group >= len(past.numbers):
            _bound(result, index, run, past, normal)
            continue
        expected = past.seen.expect(cell)
        for bounds, logarithm in (
            (result.median, expected.mean),
            (result.lower, expected.quantile(tail)),
            (result.upper, expected.quantile(1.0 - tail)),
        ):
            bounds[index] = medians[index] * np.exp(logarithm)
        result.exceedance[index] = expected.probability_above(float(ratios[index]))


def _bound(result: Expectations, index: int, run: Run, past: Experience, normal: float) -> None:
    assert past.seen is not None
    upper = 1.0 - (1.0 - CONFIDENCE) / 2.0
    log_seconds = float(np.log(run.duration_seconds)) - normal
    bound = bound_of(run, past.by_work, past.seen, log_seconds, upper)
    if bound is None:
        return
    bound_s = float(np.exp(bound.log_upper + normal))
    for figures in (result.median, result.lower, result.upper):
        figures[index] = min(figures[index], bound_s)
    result.exceedance[index] = min(result.exceedance[index], bound.exceedance)
