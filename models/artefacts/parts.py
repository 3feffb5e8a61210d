"""The parts of a portfolio, built from an artefact only if all of its numbers are consistent."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import lt
from typing import Any

import numpy as np

from models.accelerator_memory.state import build_law
from models.answers.memory import Memory
from models.candidates import CANDIDATES, Setting
from models.convergence import build_convergence
from models.distribution import LEVELS
from models.errors import ArtifactError
from models.explanations.phases import PhaseLaw, check_phases
from models.features.categories import CategoryFeature
from models.features.encoder import Encoder
from models.features.hardware import shared_data_sheets
from models.features.numeric import Companion, NumericFeature
from models.features.placement import Placement
from models.members.regime_model import RegimeModel
from models.members.shared_answers import SharedAnswers
from models.members.transfer import LevelTransfer
from models.pooling.level_effects import LevelEffects
from models.portfolio import FittedPortfolio
from models.questions.regimes import INTERPOLATION, Kind, RegimeMap, new_level_names
from models.regressor import PortfolioRegressor, State
from models.reports import FitReport
from models.runs.configurations import UNBOUNDED
from models.runs.jitter import Jitter
from models.runs.noise_tails import NoiseTails
from models.runs.run_names import RunNames
from models.selection.arms import plain_name
from models.state.checks import (
    MAX_LOG,
    check_bounded,
    check_codes,
    check_rows,
    check_weights,
    demand,
)
from models.state.typed_json import json_reader, read_number, read_texts
from models.tables import LARGEST, BoolArray, FloatArray

MAX_MEMBERS = 100
MEMBER = "member"
"""Prefix of the names of members' arrays: kind/member/name."""

HARDWARE = "encoder.hardware"
"""Name of the array with the data sheets of accelerators."""

KEYS, RUNS = "configurations.bin", "runs.txt"
"""Names of the parts with the hashes of configurations and the names of their runs."""

_MAX_CENTER, _MAX_HALF_WIDTH, _MAX_EFFECT = 250.0, 100.0, 50.0
"""Beyond what any fit gives: durations of e^250 s, bounds at 100 deviations, levels e^50 apart."""

_N_CONTROLS = 4
_CONTROL_DIGITS = 6
_CONTROL_TOLERANCE = 1e-4

Arrays = Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True)
class _Regimes:
    """The kinds of question, as stored in an artefact."""

    kinds: Mapping[str, Kind]
    few_levels: tuple[tuple[int, ...], ...]


_read_report = json_reader(FitReport, allows_nan=True)
_read_regimes = json_reader(_Regimes)
_read_numeric, _read_category = json_reader(NumericFeature), json_reader(CategoryFeature)
_read_companion, _read_jitter = json_reader(Companion), json_reader(Jitter)
_read_placement, _read_tails = json_reader(Placement), json_reader(NoiseTails)


def controls(members: Mapping[str, PortfolioRegressor], memory: Memory) -> FloatArray:
    """Return the forecasts of all members for a few measured configurations.

    Returns
    -------
    FloatArray
        Means and variances (-1 where a member has none) of the log duration, shape (n_members, 2,
        n_rows), rounded.
    """
    X = memory.X[:_N_CONTROLS]
    forecasts = []
    answers = SharedAnswers(X)
    for member in members.values():
        mean, variance = answers.moments(member)
        forecasts.append([mean, np.full(len(X), -1.0) if variance is None else variance])
    return np.array(forecasts).round(_CONTROL_DIGITS) + 0.0


def check_controls(portfolio: FittedPortfolio, recorded: FloatArray) -> None:
    """Check that the members forecast the same here as where they were written.

    Raises
    ------
    ArtifactError
        If they do not, because another version of a library interprets the numbers differently.
    """
    forecasts = controls(portfolio.members, portfolio.memory)
    demand(forecasts.shape == recorded.shape, "controls are of other members")
    check_bounded(recorded, forecasts.shape, "a control")
    if not (np.abs(forecasts - recorded) <= _CONTROL_TOLERANCE).all():
        versions = ", ".join(
            f"{name} {version}" for name, version in portfolio.report.library_versions.items()
        )
        raise ArtifactError(
            "The artefact forecasts otherwise here than where it was written "
            f"({versions}); fit the workload again."
        )


def build_portfolio(
    header: Mapping[str, Any], arrays: Arrays, parts: Mapping[str, memoryview]
) -> FittedPortfolio:
    """Return the portfolio of a header, its arrays and the names of its runs.

    Raises
    ------
    ValueError
        If anything is missing, out of range, or does not fit together.
    """
    encoder = _build_encoder(header["encoder"], arrays[HARDWARE])
    memory = _build_memory(encoder, header["memory"], arrays, parts)
    names = read_texts(header["member_order"])
    demand(0 < len(set(names)) == len(names) <= MAX_MEMBERS, "members are too many or none")
    demand(set(names) == set(header["members"]), "members are not those of their order")
    members = _build_members(names, encoder, header["members"], arrays)
    regime_map = _build_regime_map(encoder, header["kinds"], header["few_levels"])
    regimes = _build_regimes(regime_map.kinds, arrays, len(members))
    center = read_number(header["center"])
    demand(abs(center) <= _MAX_CENTER, "the centre is no log duration")
    return FittedPortfolio(
        encoder=encoder,
        transfer=_build_transfer(encoder, header["effects"], memory, arrays),
        regime_map=regime_map,
        members=members,
        regimes=regimes,
        center=center,
        memory=memory,
        report=_read_report(header["report"]),
        memory_law=build_law(header["memory_law"], arrays),
        convergence=build_convergence(arrays),
        phases=_build_phases(encoder, header["phases"], arrays),
        jitter=_build_jitter(header["jitter"]),
        placement=_build_placement(header["placement"]),
        noise_tails=_build_tails(header["noise_tails"]),
    )


def _build_jitter(header: object) -> Jitter | None:
    if header is None:
        return None
    jitter = _read_jitter(header)
    demand(0 <= jitter.relative_variance <= MAX_LOG, "relative noise is no variance")
    demand(0 < jitter.usual_variance <= MAX_LOG, "the usual noise is no variance")
    demand(abs(jitter.log_seconds) <= 2 * _MAX_CENTER, "jitter is no log duration")
    return jitter


def _build_placement(header: object) -> Placement | None:
    if header is None:
        return None
    placement = _read_placement(header)
    n = len(placement.columns)
    demand(n == len(placement.levels) == len(placement.densities), "densities are of other levels")
    densities = (placement.densest, *placement.densities)
    demand(0 < min(densities) <= max(densities) <= LARGEST, "a density is none")
    return placement


def _build_tails(header: object) -> NoiseTails | None:
    if header is None:
        return None
    tails = _read_tails(header)
    for side in (tails.below, tails.above):
        demand(len(side) == len(LEVELS), "tails are of other levels")
        demand(side[0] > 0 and side[-1] <= MAX_LOG, "a tail is none")
        demand(all(map(lt, side, side[1:])), "a tail does not rise")
    return tails


def _build_members(
    names: Iterable[str], encoder: Encoder, values: Mapping[str, Any], arrays: Arrays
) -> dict[str, PortfolioRegressor]:
    for name in names:
        if plain_name(name) not in CANDIDATES:
            message = f"The artefact has a regressor {name[:100]!r} that is not known here."
            raise ArtifactError(message)
    member_arrays: dict[str, dict[str, FloatArray]] = {name: {} for name in names}
    for path, array in arrays.items():
        kind, _, rest = path.partition("/")
        if kind == MEMBER:
            name, _, key = rest.partition("/")
            member_arrays[name][key] = array
    shared: dict[tuple[object, ...], Any] = {}
    return {
        name: _build_member(name, encoder, State(values[name], member_arrays[name], shared))
        for name in member_arrays
    }


def _build_member(name: str, encoder: Encoder, state: State) -> PortfolioRegressor:
    member = CANDIDATES[plain_name(name)](Setting(encoder.layout, 0.02, 0, 0))
    member.load_state(state)
    return member


def _build_regime_map(encoder: Encoder, kinds: object, few_levels: object) -> RegimeMap:
    expected = [INTERPOLATION, *encoder.axis_names()]
    for column, new_level in new_level_names(encoder).items():
        expected += [column, new_level]
    regimes = _read_regimes({"kinds": kinds, "few_levels": few_levels})
    demand(set(regimes.kinds) == set(expected), "kinds of question are missing or too many")
    few = tuple(frozenset(codes) for codes in regimes.few_levels)
    demand(len(few) == len(encoder.categories), "levels with few runs are of other categories")
    for codes, category in zip(few, encoder.categories, strict=True):
        demand(codes <= set(range(len(category.levels))), "a level with few runs is not there")
    return RegimeMap(encoder, dict(regimes.kinds), few)


def _build_regimes(names: Iterable[str], arrays: Arrays, n_members: int) -> dict[str, RegimeModel]:
    """Return how each kind of question is answered, with all arrays checked at once."""
    vectors = {name: arrays[f"regime.{name}"] for name in names}
    shape = (2 * n_members + len(LEVELS),)
    demand(
        all(vector.shape == shape for vector in vectors.values()), "weights do not fit the members"
    )
    table = np.array(list(vectors.values()))
    weights, variances, curves = np.split(table, (n_members, 2 * n_members), axis=1)
    check_weights(weights)
    demand(variances.min() >= 0 and variances.max() <= MAX_LOG, "a variance is out of range")
    increases = (curves[:, 1:] > curves[:, :-1]).all() and curves[:, 0].min() > 0
    is_in_range = curves[:, -1].max() <= _MAX_HALF_WIDTH
    demand(increases and is_in_range, "calibrated half widths do not increase")
    return {
        name: RegimeModel(*row)
        for name, row in zip(vectors, zip(weights, variances, curves, strict=True), strict=True)
    }


def _build_phases(encoder: Encoder, names: object, arrays: Arrays) -> PhaseLaw | None:
    coefficients = arrays.get("phases.coefficients", np.empty((0, 0)))
    return check_phases(read_texts(names), coefficients, encoder.layout)


def _build_effects(column: str, header: Mapping[str, Any], arrays: Arrays) -> LevelEffects:
    mean, covariance = arrays[f"effects.{column}.mean"], arrays[f"effects.{column}.covariance"]
    levels = read_texts(header["levels"])
    own, deviation, slope = (read_number(sd) for sd in header["sds"])
    sds = min(own, deviation, slope), max(own, deviation, slope)
    demand(sds[0] >= 0 and sds[1] <= _MAX_EFFECT, "a deviation is out of range")
    check_bounded(mean, (len(levels) + 3,), "effects", _MAX_EFFECT)
    check_bounded(covariance, (len(mean),) * 2, "a covariance of effects", _MAX_EFFECT)
    return LevelEffects(column, levels, mean, covariance, (own, deviation, slope))


def _build_transfer(
    encoder: Encoder, header: Mapping[str, Any], memory: Memory, arrays: Arrays
) -> LevelTransfer:
    effects = {column: _build_effects(column, item, arrays) for column, item in header.items()}
    demand(set(effects) <= {item.column for item in encoder.categories}, "effects of no category")
    combinations, counts = arrays["transfer.combinations"], arrays["transfer.counts"]
    check_codes(combinations, tuple(len(item.levels) for item in encoder.categories))
    demand(counts.shape == (len(combinations),) and len(counts), "combinations do not fit")
    demand((counts > 0).all(), "a combination has no run")
    return LevelTransfer(
        encoder,
        combinations.astype(np.int64),
        counts,
        effects,
        memory.X,
        memory.codes,
    )


def _build_encoder(header: Mapping[str, Any], figures: FloatArray) -> Encoder:
    numeric = tuple(map(_read_numeric, header["numeric"]))
    categories = tuple(map(_read_category, header["categories"]))
    columns = [item.column for item in numeric] + [item.column for item in categories]
    demand(len(set(columns)) == len(columns), "a column is there twice")
    for feature in numeric:
        _check_numeric(feature)
    for category in categories:
        demand(0 < len(set(category.levels)) == len(category.levels), "a level is there twice")
        demand(len(category.counts) == len(category.levels), "counts are of other levels")
    demand(isinstance(header["multi_node"], bool), "a truth value is none")
    companions = tuple(map(_read_companion, header["companions"]))
    _check_companions(companions, numeric, columns)
    return Encoder(
        numeric,
        categories,
        shared_data_sheets(read_texts(header["hardware"]), figures),
        multi_node=header["multi_node"],
        companions=companions,
    )


def _check_companions(
    companions: Iterable[Companion], numeric: Iterable[NumericFeature], columns: Iterable[str]
) -> None:
    """Check that each left-out column is a further one and belongs to a used feature."""
    used, known = {item.column for item in numeric if item.used}, set(columns)
    for item in companions:
        demand(item.of in used and item.feature.column not in known, "a companion has no feature")
        demand(not item.feature.used, "a companion is a feature")
        known.add(item.feature.column)
        _check_numeric(item.feature)
        coefficients = (item.slope, item.intercept, item.tolerance)
        demand(max(map(abs, coefficients)) <= MAX_LOG, "a companion is out of range")
        demand(item.slope != 0 and item.tolerance >= 0, "a companion tells nothing")


def _check_numeric(feature: NumericFeature) -> None:
    logs = (feature.center, feature.fill, feature.low, feature.high, feature.spread)
    demand(max(map(abs, logs)) <= MAX_LOG, "a feature is out of range")
    demand(feature.low <= feature.high and feature.spread >= 0, "a range is turned round")
    demand(feature.low <= feature.fill <= feature.high, "a missing value is out of range")
    is_log = feature.transform == "log"
    is_bounded = abs(feature.exponent) <= MAX_LOG and 0 <= feature.exponent_sd <= MAX_LOG
    demand(is_bounded and not (feature.used and feature.exponent), "an exponent is out of range")
    may_fade = feature.may_fade or feature.fades == "none"
    demand(may_fade, "what fades is no batch and no parameter")
    fades_above = feature.fades in ("above", "both")
    demand(0 <= feature.reach <= MAX_LOG * fades_above, "a trend reaches where it does not fade")
    demand(feature.origin == 0 or feature.transform == "scaled", "a scale has no such origin")
    demand(feature.unit > 0 and not (is_log and feature.floor <= 0), "a unit is not positive")


def _build_memory(
    encoder: Encoder, header: Mapping[str, Any], arrays: Arrays, parts: Mapping[str, memoryview]
) -> Memory:
    X, codes = arrays["memory.X"], arrays["memory.codes"]
    check_rows(X, encoder.layout)
    check_codes(codes, tuple(len(item.levels) for item in encoder.categories))
    names = RunNames.read(
        parts[KEYS], parts[RUNS], arrays["memory.name_lengths"], arrays["memory.name_counts"]
    )
    demand(len(X) == len(codes) == len(names), "configurations do not fit together")
    repeated, unfinished = (
        _read_rows(arrays[f"memory.{name}"], len(X)) for name in ("repeated", "unfinished")
    )
    bounds, held_out = arrays["memory.ranges"], arrays["memory.held_out"]
    check_bounded(bounds, (int(repeated.sum()), 2), "a range of repetitions")
    demand((bounds[:, 0] <= bounds[:, 1]).all(), "repetitions are turned round")
    check_bounded(held_out, (len(X),), "a held-out forecast")
    widths = arrays["memory.half_widths"]
    check_bounded(widths, (len(bounds),), "a half width", UNBOUNDED)
    demand((widths > 0).all(), "a half width is not positive")
    ranges, half_widths = np.tile([-UNBOUNDED, UNBOUNDED], (len(X), 1)), np.full(len(X), UNBOUNDED)
    ranges[repeated], half_widths[repeated] = bounds, widths
    known = frozenset(read_texts(header["known_columns"]))
    return Memory(
        X=X,
        codes=codes,
        names=names,
        held_out=held_out,
        known_columns=known,
        unfinished=unfinished,
        ranges=ranges,
        half_widths=half_widths,
    )


def _read_rows(rows: FloatArray, n: int) -> BoolArray:
    """Return a mask of the listed rows out of n; the list must be ascending."""
    mask = np.zeros(n, dtype=np.bool_)
    is_row = (rows == np.floor(rows)) & (rows >= 0) & (rows < n)
    demand(rows.ndim == 1 and is_row.all() and (np.diff(rows) > 0).all(), "rows are none")
    mask[rows.astype(np.int64)] = True
    return mask
