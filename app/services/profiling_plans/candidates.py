"""The configurations that a profiling plan may measure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final, TypeVar

from app.domain.configurations import (
    Configuration,
    ParameterValue,
    Purchase,
    Scenario,
    Work,
    leaves_nodes_open,
)
from app.domain.profiling import ProfilingRequest
from app.pricing.resolution import PriceBook
from app.services.searching.hardware import hardware_of
from app.services.searching.terms import Buying, Terms, narrowed, refuse_beyond
from app.services.served_regressors import ServedRegressor
from app.services.tables.implied_gpus import Hardware

_Name = TypeVar("_Name", str, Purchase)

MAX_CANDIDATES: Final = 2_000
_SHARES: Final = (0.125, 0.25, 0.5, 1.0)
"""Fractions of a target's work that are measured instead of it where the search names none."""

Identity = tuple[Configuration, Work, tuple[tuple[str, ParameterValue], ...]]


def identity_of(scenario: Scenario) -> Identity:
    """Return the key by which a regressor tells scenarios apart: all but place and purchase."""
    configuration = replace(scenario.configuration, provider=None, region=None, purchase=None)
    return _key(replace(scenario, configuration=configuration))


def _key(scenario: Scenario) -> Identity:
    return scenario.configuration, scenario.work, tuple(sorted(scenario.parameters.items()))


def distinct(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Return distinct scenarios in order; those that differ only in how they are paid all stay."""
    return list({_key(scenario): scenario for scenario in scenarios}.values())


def open_nodes(
    request: ProfilingRequest,
    candidates: Sequence[Scenario],
    resolved: Sequence[Scenario],
    scenarios: Iterable[Scenario],
) -> list[bool]:
    """Return which distinct scenarios leave their nodes open, whatever was filled in.

    Parameters
    ----------
    request, candidates
        The candidates as requested or made from the search.
    resolved, scenarios
        The same in a regressor's terms, and the distinct ones of these.
    """
    if not request.candidates:
        return [not request.search.hardware.nodes for _ in scenarios]
    pairs = zip(candidates, resolved, strict=True)
    given = {_key(found) for asked, found in pairs if not leaves_nodes_open(asked.configuration)}
    return [_key(scenario) not in given for scenario in scenarios]


def names_nodes(request: ProfilingRequest) -> bool:
    """Whether a search names its candidates' nodes: otherwise they are given or filled in."""
    return bool(request.search.hardware.nodes) and not request.candidates


def candidate_scenarios(
    request: ProfilingRequest,
    measured: Mapping[Hardware, float | None],
    served: ServedRegressor | None,
    book: PriceBook,
) -> Sequence[Scenario]:
    """Return every configuration that may be measured.

    Where the search names nothing, hardware is what was measured, or else the targets'; workers are
    the powers of two up to the targets'; sizes and batches are fractions of the targets';
    everything else is as in the targets. Up to as many workers as were measured on one node share
    one node; beyond that, nodes are left open.

    Parameters
    ----------
    request
        Candidates or a search, and the targets.
    measured
        The pairs of GPU type and instance type that runs have, with the most workers on one node.
    served
        The regressor, None where none is published.
    book
        Tells what is on sale where.

    Raises
    ------
    InvalidRequestError
        If there are too many, or the search contradicts itself or its pricing.
    """
    if request.candidates:
        return distinct(request.candidates)
    works, parameters = _works(request), _parameter_sets(request)
    placed = _placed(request, measured, served, book, len(works) * len(parameters))
    return [
        Scenario(configuration, work, dict(chosen))
        for configuration, work, chosen in product(
            _configurations(request, measured, placed), works, parameters
        )
    ]


def _placed(
    request: ProfilingRequest,
    measured: Mapping[Hardware, float | None],
    served: ServedRegressor | None,
    book: PriceBook,
    works: int,
) -> list[tuple[Hardware, Terms]]:
    """Return the hardware of a search with its terms, for each of its `works`."""
    search, pricing = narrowed(request.search.hardware, request.pricing), request.pricing
    targets = [target.configuration for target in request.targets]
    hardware = hardware_of(search, list(measured), served, book) or _target_hardware(request)
    buying = Buying(
        search.providers
        or _named_by_targets(pricing.provider, [target.provider for target in targets]),
        search.regions or _named_by_targets(pricing.region, [target.region for target in targets]),
        search.purchase
        or _named_by_targets(pricing.purchase, [target.purchase for target in targets]),
        pricing,
        book,
        measured=() if search.instance_types else measured,
        needs_price=request.budget is not None,
    )
    n_per_terms = len(search.nodes or (None,)) * len(_workers(request)) * works
    refuse_beyond(MAX_CANDIDATES, len(hardware) * buying.min_terms * n_per_terms)
    placed = buying.placed(hardware)
    refuse_beyond(MAX_CANDIDATES, len(placed) * n_per_terms)
    return placed


def _configurations(
    request: ProfilingRequest,
    measured: Mapping[Hardware, float | None],
    placed: Sequence[tuple[Hardware, Terms]],
) -> list[Configuration]:
    counts = product(request.search.hardware.nodes or (None,), _workers(request))
    return [
        Configuration(
            *pair,
            provider=provider,
            region=region,
            purchase=purchase,
            nodes=nodes or (1 if workers <= (measured.get(pair) or 0.0) else None),
            workers=workers,
        )
        for (pair, ((provider, region), purchase)), (nodes, workers) in product(placed, counts)
    ]


def _workers(request: ProfilingRequest) -> Sequence[int]:
    most = max(target.configuration.workers for target in request.targets)
    return request.search.hardware.workers or _powers_of_two(most)


def _named_by_targets(priced: str | None, names: Sequence[_Name | None]) -> list[_Name | None]:
    """Return what the targets name, or nothing where pricing says what the bill is based on."""
    return list(dict.fromkeys(names)) if priced is None else [None]


def _target_hardware(request: ProfilingRequest) -> list[Hardware]:
    """Return the targets' hardware, which counts where none was measured or is named."""
    targets = [target.configuration for target in request.targets]
    return list(dict.fromkeys((target.gpu_type, target.instance_type) for target in targets))


def _powers_of_two(most: int) -> list[int]:
    return sorted({*(1 << power for power in range(most.bit_length())), most})


def _works(request: ProfilingRequest) -> list[Work]:
    search, target_works = request.search, [target.work for target in request.targets]
    return [
        Work(*sizes)
        for sizes in product(
            search.dataset_sizes or _fractions(work.dataset_size for work in target_works),
            search.batch_sizes or _fractions(work.batch_size for work in target_works),
            search.epochs or _epochs(work.epochs for work in target_works),
        )
    ]


def _fractions(sizes: Iterable[float | None]) -> list[float | None]:
    """Return fractions of every size; those of whole numbers are whole."""
    fractions: dict[float | None, None] = {}
    for size in sizes:
        for share in _SHARES:
            fraction = None if size is None else size * share
            is_whole = size is not None and float(size).is_integer()
            fractions[
                float(max(1, round(fraction))) if fraction is not None and is_whole else fraction
            ] = None
    return list(fractions)


def _epochs(epochs: Iterable[float | None]) -> list[float | None]:
    """Return the requested epochs and a single one, which costs least."""
    distinct: dict[float | None, None] = {}
    for count in epochs:
        if count is not None and count > 1:
            distinct[1.0] = None
        distinct[count] = None
    return list(distinct)


def _parameter_sets(request: ProfilingRequest) -> list[tuple[tuple[str, ParameterValue], ...]]:
    """Return the targets' parameters, with those that the search names replaced."""
    searched = request.search.parameters
    values = [[(name, value) for value in options] for name, options in searched.items()]
    sets: dict[tuple[tuple[str, ParameterValue], ...], None] = {}
    for target in request.targets:
        for chosen in product(*values):
            sets[tuple(sorted({**target.parameters, **dict(chosen)}.items()))] = None
    return list(sets)
