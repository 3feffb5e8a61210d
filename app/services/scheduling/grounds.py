"""What the forecasts of many jobs rest on: the memory of the GPUs and the measured runs."""

import numpy as np

from app.decisions.durations import FloatArray
from app.domain.forecasts import ForecastWarning
from app.services.answering.evaluation import fits_probability
from app.services.answering.warnings import on_question
from app.services.scheduling.beliefs import Beliefs
from models import BoolArray, IntArray


def grounds_of(beliefs: Beliefs, *, ranged: bool) -> tuple[FloatArray, BoolArray]:
    """Return the probabilities that memory suffices, and what lies within the measured ranges.

    The probability is 1 where nothing measured says otherwise.

    Parameters
    ----------
    beliefs
        The forecasts.
    ranged
        Whether the ranges matter; without, everything counts as within them.
    """
    n = len(beliefs.known)
    fits, is_within = np.ones(n), np.ones(n, dtype=np.bool_)
    for answered in beliefs.answers:
        fits[answered.places] = fits_probability(answered.standing.features, answered.memory_law)
        if ranged:
            is_within[answered.places] = answered.standing.within_range
    return fits, is_within


def warnings_of(
    beliefs: Beliefs, places: IntArray, is_running: BoolArray, confidence: float
) -> list[tuple[ForecastWarning, ...]]:
    """Return what to know of some forecasts: what was never measured, what may not fit into memory.

    Parameters
    ----------
    beliefs
        The forecasts.
    places
        Which of them, as positions in `beliefs.known`; each at most once.
    is_running
        Which of `places` run as forecast, and so have shown that they fit, shape (n,).
    confidence
        Below this probability, a job may not fit into memory.
    """
    warnings: list[tuple[ForecastWarning, ...]] = [()] * len(places)
    row_at = np.full(len(beliefs.known), -1)
    row_at[places] = np.arange(len(places))
    for answered in beliefs.answers:
        asked = np.flatnonzero(row_at[answered.places] >= 0)
        if not asked.size:
            continue
        rows = row_at[answered.places[asked]]
        is_all = len(asked) == len(answered.places)
        standing = answered.standing if is_all else answered.standing.about(asked)
        departures, law = standing.departures, answered.memory_law
        # Where nothing is known of the memory, the probability is NaN, which is not smaller.
        fits = np.nan if law is None else law.feasibility(standing.features).probability
        fits = np.where(is_running[rows], np.nan, fits)
        levels = answered.category_levels
        for index in {*np.flatnonzero(fits < confidence).tolist(), *departures}:
            warnings[rows[index]] = tuple(
                on_question(float(fits[index]), confidence, departures.get(index), levels)
            )
    return warnings
