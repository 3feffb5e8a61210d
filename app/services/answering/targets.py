"""Forecasts of the time and cost to a training target, by batch size."""

from collections.abc import Sequence
from math import exp, hypot, isfinite, log
from statistics import NormalDist

import numpy as np

from app.domain.configurations import Scenario, Work
from app.domain.forecasts import ForecastRequest, Interval, TargetForecast
from app.pricing.offers import Offer
from app.services.answering.costs import cost_of
from models import ConvergenceLaw


def targets_of(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    offers: Sequence[Offer | None],
    durations: Sequence[Interval],
    law: ConvergenceLaw | None,
) -> list[TargetForecast | None]:
    """Return the time and cost to each target, None where the runs or the question leave it open.

    The regressor forecasts the requested epochs; the duration to the target is proportional to the
    number of samples. The half widths of both logarithms add up as for independent variables.

    Parameters
    ----------
    requests, scenarios, offers
        The questions in the regressor's terms, and the offers at which they would be bought.
    durations
        The forecasts of the requested epochs; infinite or NaN for work that cannot end.
    law
        How many samples the target takes, None where no run reached one.
    """
    answers: list[TargetForecast | None] = [None] * len(requests)
    requested = [_samples(scenario.work) for scenario in scenarios]
    rows = [
        row for row, samples in enumerate(requested) if samples and isfinite(durations[row].upper)
    ]
    if law is None or not rows:
        return answers
    batches = np.array([scenarios[row].work.batch_size for row in rows], dtype=np.float64)
    mean, variance = law.moments(batches)
    for row, center, spread in zip(rows, mean.tolist(), np.sqrt(variance).tolist(), strict=True):
        work, offer = scenarios[row].work, offers[row]
        samples = _samples_needed(center, spread, requests[row].confidence)
        duration = _scaled(durations[row], samples, requested[row] or 1.0)
        answers[row] = TargetForecast(
            samples=samples,
            epochs=_epochs(samples, work.dataset_size or 1.0),
            duration_seconds=duration,
            cost=None if offer is None else cost_of(offer, duration),
        )
    return answers


def _samples(work: Work) -> float | None:
    """Return the number of samples in the requested epochs, None where part of it is open."""
    if work.dataset_size is None or work.epochs is None or work.batch_size is None:
        return None
    return work.dataset_size * work.epochs


def _samples_needed(mean: float, deviation: float, confidence: float) -> Interval:
    """Return the samples that a new run needs, from the mean and deviation of their logarithm."""
    half_width = NormalDist().inv_cdf((1 + confidence) / 2) * deviation
    return _rounded(exp(mean), exp(mean - half_width), exp(mean + half_width), confidence)


def _scaled(duration: Interval, samples: Interval, requested: float) -> Interval:
    """Return the duration for the needed samples, given that for the requested ones."""
    median = duration.median * samples.median / requested
    below = hypot(log(duration.median / duration.lower), log(samples.median / samples.lower))
    above = hypot(log(duration.upper / duration.median), log(samples.upper / samples.median))
    return _rounded(median, median * exp(-below), median * exp(above), duration.confidence)


def _epochs(samples: Interval, size: float) -> Interval:
    bounds = (samples.median / size, samples.lower / size, samples.upper / size)
    return _rounded(*bounds, confidence=samples.confidence)


def _rounded(median: float, lower: float, upper: float, confidence: float) -> Interval:
    """Return an interval to seven significant digits, as durations are shown."""
    low, middle, high = (float(f"{bound:.7g}") for bound in (lower, median, upper))
    return Interval(middle, low, high, confidence)
