"""Writes many forecasts by one regressor as JSON, member by member instead of row by row.

The format of each member is that of `app.api.documents.forecasts`, which writes one forecast.
"""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from operator import add
from typing import Final

import numpy as np
import numpy.typing as npt
import orjson

from app.api.batches.column_texts import (
    Piece,
    as_repeated,
    distinct_texts,
    filled,
    number_texts,
    object_pieces,
    parts_around,
    parts_of,
    plain_texts,
    row_texts,
    shared_texts,
    where,
)
from app.api.batches.cost_texts import cost_pieces
from app.api.batches.joined_texts import Blocks, joined, joined_blocks
from app.api.documents import forecasts as documents
from app.api.documents.forecasts import MEMBERS
from app.domain.alike import AlikeScenarios, configurations_of
from app.domain.columns import Repeated
from app.domain.configurations import Work
from app.domain.forecasts import Interval, RareLevels, SupportReport
from app.services.answering.answers import LazyAnswer
from app.services.answering.columns import AnswerColumns
from app.services.answering.energy import EnergyRate, energies_over
from app.services.answering.rounding import significant
from app.services.answering.rows import AllAnswered, Answered

Write = Callable[[AnswerColumns, datetime], Iterable[Piece]]

_BAND_HOLES: Final = ("-1.5", "-2.5", "-3.5", "-4.5")
"""Never real values: durations, confidences and energies are not negative."""

_ENERGY_HOLES: Final = _BAND_HOLES[:2]
_CACHE_SIZE: Final = 1024
"""Documents with holes that are cached."""

_RUNS_HOLE: Final = "*"
"""No run has this id."""


def forecast_texts(
    answers: Sequence[LazyAnswer], now: datetime, members: Sequence[str]
) -> list[bytes]:
    """Return the JSON of each forecast with the requested members.

    Refusals are skipped.
    """
    if isinstance(answers, AllAnswered):
        return _rows(answers.columns, now, members)
    answered = [answer for answer in answers if isinstance(answer, Answered)]
    texts = {
        columns: _rows(columns, now, members)
        for columns in dict.fromkeys(answer.columns for answer in answered)
    }
    return [texts[answer.columns][answer.row] for answer in answered]


def forecast_blocks(
    answered: AllAnswered, heads: Piece, now: datetime, members: Sequence[str]
) -> Blocks:
    """Return the JSON of each forecast after its head, in blocks of some hundred forecasts."""
    columns = answered.columns
    return joined_blocks([heads, *_member_pieces(columns, now, members)], len(columns.requests))


def _rows(columns: AnswerColumns, now: datetime, members: Sequence[str]) -> list[bytes]:
    return joined(_member_pieces(columns, now, members), len(columns.requests))


def _member_pieces(columns: AnswerColumns, now: datetime, members: Sequence[str]) -> list[Piece]:
    return object_pieces({name: [*_pieces(name, columns, now)] for name in members})


def _pieces(name: str, columns: AnswerColumns, now: datetime) -> Iterable[Piece]:
    write = _WRITERS.get(name)
    if write is not None:
        return write(columns, now)
    # A member without a writer is the same in all answers of one regressor.
    return [orjson.dumps(MEMBERS[name](Answered(columns, 0), now))]


def _configuration(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    yield shared_texts(configurations_of(columns.scenarios), documents.configuration_document)


def _work(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    scenarios = columns.scenarios
    if isinstance(scenarios, AlikeScenarios):
        columns_of = scenarios.work
    else:
        works = [scenario.work for scenario in scenarios]
        columns_of = {name: [getattr(work, name) for work in works] for name in Work.__slots__}
    return object_pieces({name: [plain_texts(column)] for name, column in columns_of.items()})


def _parameters(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    scenarios = columns.scenarios
    if isinstance(scenarios, AlikeScenarios):
        columns_of = scenarios.parameters
        return object_pieces({name: [_values(column)] for name, column in columns_of.items()})
    rows = [scenario.parameters for scenario in scenarios]
    names = tuple(rows[0])
    if any(tuple(row) != names for row in rows):
        return [[orjson.dumps(documents.parameters_document(row)) for row in rows]]
    return object_pieces({name: [_values([row[name] for row in rows])] for name in names})


def _values(values: Sequence[float | str]) -> Piece:
    if isinstance(values, Repeated):
        return values.made(lambda value: row_texts(_values([value]), 1)[0])
    numbers = [value for value in values if not isinstance(value, str)]
    if len(numbers) == len(values):
        return plain_texts(numbers)
    return [
        orjson.dumps(documents.parameters_document({"": parameter})[""]) for parameter in values
    ]


def _duration(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    figures = columns.figures
    holes = documents.band_document(Interval(*map(float, _BAND_HOLES)))
    texts = [number_texts(values) for values in (figures.median, *figures.bounds)]
    filling = [*texts, distinct_texts(figures.levels, float)]
    return filled(parts_around(holes, _BAND_HOLES), filling)


def _time_limit(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    yield plain_texts(columns.figures.time_limit)


def _probability(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    probabilities = {"deadline": columns.figures.deadline, "budget": columns.within_budget}
    return object_pieces(
        {name: [_probability_texts(column)] for name, column in probabilities.items()}
    )


def _probability_texts(probabilities: Sequence[float | None]) -> Piece:
    """Return probabilities as JSON: as one text if all are equal, which is common."""
    if probabilities.count(probabilities[0]) == len(probabilities):
        return orjson.dumps(probabilities[0])
    return number_texts(probabilities)


def _feasibility(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    probabilities, bases = columns.chances_to_fit
    column = as_repeated(probabilities)
    texts = (
        column.made(orjson.dumps) if isinstance(column, Repeated) else _probability_texts(column)
    )
    members = [texts], [distinct_texts(bases, str)]
    return object_pieces(dict(zip(("fits_probability", "basis"), members, strict=True)))


def _support(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    """Return the JSON of supports: within the range they differ only in the nearest runs."""
    supports = columns.supports
    texts = {
        row: orjson.dumps(documents.support_document(columns.report_of(support)))
        for row, support in supports.outside.items()
    }
    runs = list(map(orjson.dumps, supports.nearest))
    within: list[bytes] = []
    first_of: dict[RareLevels, int] = {}
    for rare in set(supports.rare):
        before, after = _around_runs(columns.report_within((_RUNS_HOLE,), rare))
        first_of[rare] = len(within)
        within += [b"%b%b%b" % (before, each, after) for each in runs]
    places = _places(supports.places)
    if len(first_of) > 1:
        first = map(first_of.__getitem__, supports.rare)
        places = array("q", map(add, places, first))
    for place, row in enumerate(texts, len(within)):
        places[row] = place
    yield Repeated([*within, *texts.values()], places)


@lru_cache(maxsize=_CACHE_SIZE)
def _around_runs(report: SupportReport) -> Sequence[bytes]:
    """Return the document of a report before and after the nearest runs."""
    return parts_around(documents.support_document(report), [f'["{_RUNS_HOLE}"]'])


def _basis(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    supports = columns.supports
    bases = list(supports.bases)
    for row, support in supports.outside.items():
        bases[row] = support.basis
    yield distinct_texts(bases, str)


def _energy(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    """Return the JSON of energies; text that depends on the rate alone is written once."""
    rates = columns.energy_rates
    is_known = (
        rates.made(lambda rate: rate.draw is not None),
        rates.made(lambda rate: rate.draw is not None and rate.kg_co2e_per_kwh is not None),
    )
    hours, carbon = energies_over(rates, columns.figures.median)
    holes = [
        where(is_known[0], lambda: number_texts(significant(hours, 4))),
        where(is_known[1], lambda: number_texts(significant(carbon, 4))),
    ]
    return filled(parts_of(rates.made(_around_energy)), holes)


@lru_cache(maxsize=_CACHE_SIZE)
def _around_energy(rate: EnergyRate) -> Sequence[bytes]:
    """Return the document of an energy before, between and after its figures."""
    energy = rate.over(1.0)
    hours, carbon = map(float, _ENERGY_HOLES)
    if energy.kilowatt_hours is None:
        return [orjson.dumps(documents.energy_document(energy)), b"", b""]
    if energy.kg_co2e is None:
        with_holes = replace(energy, kilowatt_hours=hours)
        return [*parts_around(documents.energy_document(with_holes), _ENERGY_HOLES[:1]), b""]
    with_holes = replace(energy, kilowatt_hours=hours, kg_co2e=carbon)
    return parts_around(documents.energy_document(with_holes), _ENERGY_HOLES)


def _explanation(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    """Return explanations: one column per rank of the shares, empty in rows with fewer terms."""
    names, order, shares = columns.ranked_shares
    heads = [orjson.dumps({"term": name, "share": 0.5})[:-4] for name in names]
    is_shown = shares > 0.0
    is_alike = np.logical_and.reduce((order == order[0]) & (is_shown == is_shown[0])).tolist()
    n_shown = int(np.count_nonzero(np.logical_or.reduce(is_shown)))
    n_rows = len(shares)
    texts = number_texts(significant(shares[:, :n_shown].T.ravel(), 4))
    yield b"["
    for rank in range(n_shown):
        opening = b"}," if rank else b""
        column = texts[rank * n_rows : (rank + 1) * n_rows]
        if is_alike[rank]:  # the same term in every row
            yield opening + heads[order.item(0, rank)]
        else:
            shown = is_shown[:, rank]
            before = [*(opening + head for head in heads), b""]
            yield Repeated(before, _places(np.where(shown, order[:, rank], len(names))))
            for row in np.flatnonzero(~shown).tolist():
                column[row] = b""
        yield column
    endings = [b"]", b"}]"]
    yield (
        endings[is_shown.item(0, 0)] if is_alike[0] else Repeated(endings, _places(is_shown[:, 0]))
    )


def _places(numbers: npt.NDArray[np.int64 | np.bool_]) -> "array[int]":
    return array("q", numbers.astype(np.int64).tobytes())


def _unless_all_are(usual: object, name: str, column: str) -> Write:
    """Return a writer for a member that has the value `usual` in most batches."""

    def write(columns: AnswerColumns, now: datetime) -> Iterable[Piece]:
        values = getattr(columns, column)
        distinct = values.distinct if isinstance(values, Repeated) else values
        if distinct.count(usual) == len(distinct):
            return [orjson.dumps(usual)]
        rows = range(len(values))
        return [[orjson.dumps(MEMBERS[name](Answered(columns, row), now)) for row in rows]]

    return write


def _warnings(columns: AnswerColumns, _: datetime) -> Iterable[Piece]:
    yield shared_texts(columns.warnings, documents.warning_documents)


_WRITERS: Final[Mapping[str, Write]] = {
    "configuration": _configuration,
    "work": _work,
    "parameters": _parameters,
    "duration_seconds": _duration,
    "time_limit_seconds": _time_limit,
    "cost": cost_pieces,
    "feasibility": _feasibility,
    "probability": _probability,
    "support": _support,
    "basis": _basis,
    "energy": _energy,
    "explanation": _explanation,
    "to_target": _unless_all_are(None, "to_target", "targets"),
    "spot": _unless_all_are(None, "spot", "spot"),
    "purchases": _unless_all_are((), "purchases", "purchases"),
    "taught_by": _unless_all_are(None, "taught_by", "lessons"),
    "warnings": _warnings,
}
