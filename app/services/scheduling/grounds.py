"""What the forecasts of elastic jobs rest on: the memory of the GPUs and the measured runs."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from app.decisions.durations import FloatArray
from app.domain.forecasts import ForecastWarning
from app.domain.identifiers import Slug
from app.services.answering.durations import features_of
from app.services.answering.evaluation import fits_probability
from app.services.answering.warnings import on_support
from app.services.scheduling.beliefs import Beliefs
from app.services.serving import ServedRegressor
from models import BoolArray


def grounds_of(
    workloads: Sequence[Slug], beliefs: Beliefs, *, ranged: bool
) -> tuple[FloatArray, BoolArray]:
    """Return the probabilities that memory suffices, and what lies within the measured ranges.

    The probability is 1 where nothing measured says otherwise.

    Parameters
    ----------
    workloads
        The workload of each of `beliefs.known`, asked for in its published version.
    beliefs
        Their forecasts.
    ranged
        Whether the ranges matter; without, everything counts as within them.
    """
    fits, is_within = np.ones(len(workloads)), np.ones(len(workloads), dtype=np.bool_)
    for served, rows in _by_regressor(workloads, beliefs):
        if served.portfolio.memory_law is None and not ranged:
            continue
        features = features_of([beliefs.scenarios[row] for row in rows], served)
        fits[rows] = fits_probability(features, served)
        if ranged:
            is_within[rows] = served.portfolio.within_range(features)
    return fits, is_within


def warnings_of(
    workloads: Sequence[Slug], rows: Sequence[int], beliefs: Beliefs
) -> list[tuple[ForecastWarning, ...]]:
    """Return what to know of some forecasts: how far from the measured runs they are.

    Parameters
    ----------
    workloads
        The workload of each of `rows`, asked for in its published version.
    rows
        Positions in `beliefs.known`.
    beliefs
        The forecasts.
    """
    warnings: list[tuple[ForecastWarning, ...]] = [()] * len(rows)
    for served, places in _by_regressor(workloads, beliefs):
        scenarios = [beliefs.scenarios[rows[place]] for place in places]
        supports = served.portfolio.support(features_of(scenarios, served))
        levels = served.portfolio.report.category_levels
        for place, support in zip(places, supports, strict=True):
            warnings[place] = tuple(on_support(support, levels))
    return warnings


def _by_regressor(
    workloads: Sequence[Slug], beliefs: Beliefs
) -> Iterator[tuple[ServedRegressor, list[int]]]:
    """Yield each regressor with the places of its workload."""
    places: defaultdict[Slug, list[int]] = defaultdict(list)
    for place, slug in enumerate(workloads):
        places[slug].append(place)
    for slug, group in places.items():
        served = beliefs.published(slug)
        if served is not None:
            yield served, group
