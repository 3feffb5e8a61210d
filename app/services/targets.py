"""Forecasts of what a training takes until it is good enough, as the batch size changes."""

from collections.abc import Sequence
from math import exp
from statistics import NormalDist

import numpy as np

from app.domain.configurations import Scenario, Work
from app.domain.forecasts import ForecastRequest, Interval, TargetForecast
from app.pricing.offers import Offer
from app.services.costs import cost_of
from models import ConvergenceLaw, FloatArray, ForecastDistribution


def targets_of(
    requests: Sequence[ForecastRequest],
    scenarios: Sequence[Scenario],
    offers: Sequence[Offer | None],
    forecast: ForecastDistribution,
    law: ConvergenceLaw | None,
) -> list[TargetForecast | None]:
    """Return what each target takes, None where the runs or the question leave it open.

    The regressor tells how long the asked epochs last; as many samples as the target takes last in
    proportion. What is not known of either adds up.

    Parameters
    ----------
    requests, scenarios, offers
        The questions, in the words of the regressor, and at what they would be bought.
    forecast
        The distributions of their durations.
    law
        How many samples the target takes, None where no run reached one.
    """
    answers: list[TargetForecast | None] = [None] * len(requests)
    passes = [_samples(scenario.work) for scenario in scenarios]
    rows = [row for row, samples in enumerate(passes) if samples is not None]
    if law is None or not rows:
        return answers
    batches = np.array([scenarios[row].work.batch_size for row in rows], dtype=np.float64)
    mean, variance = law.moments(batches)
    once = np.log(np.array([passes[row] for row in rows], dtype=np.float64))
    whole = _scaled(forecast, rows, mean - once, variance)
    for place, row in enumerate(rows):
        confidence, size = requests[row].confidence, scenarios[row].work.dataset_size
        samples = _samples_bounds(float(mean[place]), float(variance[place]), confidence)
        seconds = (whole.median(), *whole.interval(confidence))
        duration = _shown([float(bound[place]) for bound in seconds], confidence)
        offer = offers[row]
        answers[row] = TargetForecast(
            samples=_shown(samples, confidence),
            epochs=_shown([bound / (size or 1.0) for bound in samples], confidence),
            duration_seconds=duration,
            cost=None if offer is None else cost_of(offer, duration),
        )
    return answers


def _samples(work: Work) -> float | None:
    """Return the samples that the asked epochs have, None where something of it is open."""
    if work.dataset_size is None or work.epochs is None or work.batch_size is None:
        return None
    return work.dataset_size * work.epochs


def _scaled(
    forecast: ForecastDistribution, rows: Sequence[int], shift: FloatArray, variance: FloatArray
) -> ForecastDistribution:
    return ForecastDistribution(
        forecast.log_median[rows] + shift,
        np.sqrt(forecast.scale[rows] ** 2 + variance),
        tuple(forecast.regimes[row] for row in rows),
        forecast.curves[rows],
    )


def _samples_bounds(mean: float, variance: float, confidence: float) -> list[float]:
    """Return the median and the bounds of the samples that a new run needs."""
    half = NormalDist().inv_cdf((1 + confidence) / 2) * variance**0.5
    return [exp(mean), exp(mean - half), exp(mean + half)]


def _shown(bounds: Sequence[float], confidence: float) -> Interval:
    """Return an interval to seven significant digits, as durations are shown."""
    median, lower, upper = (float(f"{bound:.7g}") for bound in bounds)
    return Interval(median, lower, upper, confidence)
