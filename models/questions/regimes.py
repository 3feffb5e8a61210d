"""Kinds of question, and held-out sets that imitate each of them."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from models.features.encoded import Encoded
from models.features.encoder import UNSEEN, Encoder
from models.features.layout import Layout
from models.tables import FloatArray, IntArray

INTERPOLATION = "interpolation"
Kind = Literal[
    "interpolation",
    "transfer",
    "new_level",
    "extrapolation",
    "short_axis",
    "constant_axis",
    "irrelevant",
]

IRRELEVANT_AXIS: Final = "irrelevant"
"""Kind of an axis without effect, or with a known one: epochs that never varied.

No question leaves the measured range there."""

UNTESTED_AXES: Final[frozenset[Kind]] = frozenset({"short_axis", "constant_axis"})
"""Kinds of axes that no held-out set can test, however many configurations there are."""

PINNED_AXES: Final = ("workers", "batch_size", "nodes")
"""Axes whose exponents physics pins: the tight laws extrapolate them best."""

_NEW_LEVEL = ":new"
"""Suffix of the name of a category's regime for levels that no run has."""

FEW_CONFIGURATIONS = 12
"""Up to this many, each configuration is held out alone; with fewer, prior weights are kept."""

N_FOLDS = 6

MIN_TRAINING = 4
"""Configurations that a held-out set leaves to learn from."""

MIN_AXIS_LEVELS = 3
"""Two levels show no trend that a third could contradict."""

MAX_AXES, MAX_LEVELS_HELD_OUT = 8, 3
"""Most axes, and levels of a category, with held-out sets: each costs a refit of all members."""

_MIN_SHARE_TRAINED = 1 / 3

LEAVES_AXIS = 0.02
"""A question further out than this share of the measured range is an extrapolation."""

_EQUALLY_FAR: Final = 1e-9
"""Distances that differ by less are equal: those of proportional parameters differ by rounding."""


@dataclass(frozen=True, slots=True)
class Fold:
    """One held-out set: what is asked, the configurations to learn from and those to forecast."""

    regime: str
    train: IntArray
    test: IntArray


class RegimeMap:
    """The regimes of a workload, and to which a question belongs.

    Parameters
    ----------
    encoder
        Names the axes and the categories.
    kinds
        Kind of each regime, by name; ``interpolation`` is always present. The range of an
        irrelevant parameter (`models.columns.relevance`) and of epochs that never varied
        (`models.members.epochs`) does not matter for the regime of a question.
    few_levels
        Codes of the levels with few runs, for each category.
    """

    def __init__(
        self,
        encoder: Encoder,
        kinds: dict[str, Kind],
        few_levels: tuple[frozenset[int], ...],
    ) -> None:
        self.kinds, self.few_levels = kinds, few_levels
        self._axes = encoder.axis_names()
        self._categories = tuple(new_level_names(encoder).items())
        self._has_few_levels = any(few_levels)
        self._is_relevant = np.array([kinds[name] != IRRELEVANT_AXIS for name in self._axes], bool)
        self._are_all_relevant = bool(self._is_relevant.all())

    def of_rows(self, encoded: Encoded) -> tuple[str, ...]:
        """Return the regime of each row: the axis farthest out, a rare level, or interpolation."""
        regimes = [INTERPOLATION] * len(encoded.codes)
        if self._has_few_levels or encoded.has_open_levels():
            regime_of_levels: dict[tuple[int, ...], str] = {}
            for row, levels in enumerate(map(tuple, encoded.codes.tolist())):
                regime = regime_of_levels.get(levels)
                if regime is None:
                    regime = regime_of_levels[levels] = self._of_levels(levels)
                regimes[row] = regime
        for row, index in _farthest(self.relevant(encoded.distances)).items():
            regimes[row] = self._axes[index]
        return tuple(regimes)

    def _of_levels(self, levels: tuple[int, ...]) -> str:
        """Return the regime of a question within all ranges."""
        rare_regimes = (
            new_level if code == UNSEEN else column
            for (column, new_level), code, rare in zip(
                self._categories, levels, self.few_levels, strict=True
            )
            if code < 0 or code in rare
        )
        return next(rare_regimes, INTERPOLATION)

    def relevant(self, distances: FloatArray) -> FloatArray:
        """Return the distances beyond the measured range that decide the kind of question.

        Those along irrelevant parameters are set to 0.
        """
        if self._are_all_relevant:
            return distances
        return np.where(self._is_relevant, distances, 0.0)


def new_level_names(encoder: Encoder) -> dict[str, str]:
    """Return the name of each category's regime for levels that no run has, by its column.

    No other regime has that name, whatever the columns are called.

    Examples
    --------
    >>> from models.tables import FeatureTable
    >>> columns = {"param.a": ["x", "y"], "param.a:new": ["x", None]}
    >>> new_level_names(Encoder.learn(FeatureTable({}, columns, 2)))["param.a"]
    'param.a:new:new'
    """
    columns = [category.column for category in encoder.categories]
    taken, names = {*encoder.axis_names(), *columns}, {}
    for column in columns:
        name = column + _NEW_LEVEL
        while name in taken:
            name += _NEW_LEVEL
        taken.add(name)
        names[column] = name
    return names


def _farthest(distances: FloatArray) -> dict[int, int]:
    """Return the axis farthest out for each row that leaves the range, the first of equal ones."""
    if len(distances) == 1:
        row = distances[0].tolist()
        largest = max(row, default=0.0)
        if largest <= LEAVES_AXIS:
            return {}
        return {0: next(n for n, distance in enumerate(row) if distance >= largest - _EQUALLY_FAR)}
    if distances.max(initial=0.0) <= LEAVES_AXIS:
        return {}
    largest = distances.max(axis=1)
    first = (distances >= largest[:, None] - _EQUALLY_FAR).argmax(axis=1)
    rows = np.flatnonzero(largest > LEAVES_AXIS)
    return dict(zip(rows.tolist(), first[rows].tolist(), strict=True))


def map_regimes(encoder: Encoder, layout: Layout, X: FloatArray, codes: IntArray) -> RegimeMap:
    """Return the regimes of a workload: interpolation, each numeric axis, each category.

    `layout` says which parameters are irrelevant.

    Raises
    ------
    ValueError
        If a column has the name of a kind of question, ``interpolation``.
    """
    if INTERPOLATION in {*encoder.axis_names(), *(item.column for item in encoder.categories)}:
        raise ValueError(f"No column can be called {INTERPOLATION!r}: that is a kind of question.")
    kinds: dict[str, Kind] = {INTERPOLATION: "interpolation"}
    column = 0
    for feature in encoder.numeric:
        kind: Kind = "short_axis"
        if feature.used:
            kind = _kind_of_axis(len(np.unique(X[:, column].round(9))))
            if layout.relevances[column] < 1:
                kind = IRRELEVANT_AXIS
            column += 1
        kinds[feature.column] = kind
    few_levels, new_levels = [], new_level_names(encoder)
    for index, category in enumerate(encoder.categories):
        kinds[category.column] = "transfer"
        kinds[new_levels[category.column]] = "new_level"
        sizes = np.bincount(codes[:, index], minlength=len(category.levels))
        limit = max(3.0, 0.08 * len(X))
        few = (sizes <= limit) & (3 * sizes <= sizes.max())
        few_levels.append(frozenset(np.flatnonzero(few).tolist()) if category.used else frozenset())
    return RegimeMap(encoder, kinds, tuple(few_levels))


def _kind_of_axis(n_levels: int) -> Kind:
    """Return the kind of question beyond an axis with this many measured levels."""
    if n_levels == 1:
        return "constant_axis"
    return "short_axis" if n_levels < MIN_AXIS_LEVELS else "extrapolation"


def interpolation_folds(structure: tuple[str, ...]) -> list[Fold]:
    """Return folds over configurations, determined by their structure, not by order or names.

    With at most 12 configurations, each is held out alone; with more, the hash of its structure
    (see `models.features.ordering`) selects one of six folds.

    Examples
    --------
    >>> [fold.test.tolist() for fold in interpolation_folds(("0a", "0b", "0c", "0d"))]
    [[0], [1], [2], [3]]
    """
    n = len(structure)
    if n < MIN_TRAINING:
        return []
    if n <= FEW_CONFIGURATIONS:
        fold_ids = np.arange(n)
    else:
        fold_ids = np.array([int(key[:8], 16) % N_FOLDS for key in structure])
    folds = []
    for index in np.unique(fold_ids):
        test = np.flatnonzero(fold_ids == index)
        train = np.flatnonzero(fold_ids != index)
        if len(train) >= min(MIN_TRAINING, n - 1):
            folds.append(Fold(INTERPOLATION, train, test))
    return folds


def axis_folds(encoder: Encoder, regimes: RegimeMap, X: FloatArray) -> list[Fold]:
    """Return two folds per numeric axis of three or more levels: the last, and the upper 40 %.

    Irrelevant parameters have none.
    """
    n = len(X)
    if n < 6:  # noqa: PLR2004 - fewer leave nothing to learn an axis from
        return []
    folds: list[Fold] = []
    used = [feature.column for feature in encoder.numeric if feature.used]
    axes = [column for column, name in enumerate(used) if regimes.kinds[name] != IRRELEVANT_AXIS]
    for column in axes[:MAX_AXES]:
        name, values = used[column], X[:, column].round(9)
        levels = np.unique(values)
        if len(levels) < MIN_AXIS_LEVELS:
            continue
        for cut in sorted({len(levels) - 1, int(0.6 * len(levels))}, reverse=True):
            train = np.flatnonzero(values < levels[cut])
            if len(train) >= max(MIN_TRAINING, 0.15 * n):
                folds.append(Fold(name, train, np.flatnonzero(values >= levels[cut])))
    return folds


def transfer_folds(encoder: Encoder, codes: IntArray, regimes: RegimeMap) -> list[Fold]:
    """Return folds that keep few configurations of a level, for up to three levels per category.

    A level is not held out if that leaves less than a third of all configurations: forecasts from
    so few say little about forecasts from all.
    """
    folds: list[Fold] = []
    for index, category in enumerate(encoder.categories):
        if not category.used:
            continue
        column = codes[:, index]
        counts = np.bincount(column, minlength=len(category.levels))
        rare = regimes.few_levels[index]
        n_kept = int(min((counts[code] for code in rare), default=3))
        common = [code for code in np.argsort(-counts, kind="stable") if code not in rare]
        for code in common[:MAX_LEVELS_HELD_OUT]:
            # Configurations are in the order of their hashes: the first ones are a random choice.
            test = np.flatnonzero(column == code)[n_kept:]
            train = np.setdiff1d(np.arange(len(codes)), test)
            min_training = max(MIN_TRAINING, _MIN_SHARE_TRAINED * len(codes))
            if len(test) >= n_kept and len(train) >= min_training:
                folds.append(Fold(category.column, train, test))
    return folds
