"""How well the runs support a question: ranges, levels, what cannot be known, nearest runs."""

from collections.abc import Mapping, Sequence

import numpy as np

from models.encoding import UNASKED, UNSEEN, Encoded, Encoder
from models.features import NumericFeature
from models.memory import Memory, row_signatures
from models.reports import AxisSupport, Basis, Support
from models.tables import FeatureTable
from models.transfer import LevelTransfer

_TINY = 1e-9
_SUFFIX = {"": "", "per_worker": "_per_worker", "workers_per": ""}


def describe_support(
    features: FeatureTable,
    encoded: Encoded,
    encoder: Encoder,
    transfer: LevelTransfer,
    memory: Memory,
    few_levels: Sequence[frozenset[int]],
) -> list[Support]:
    """Return the support of each row of `features`, which is encoded and settled."""
    spans = _spans(encoder)
    nearest = memory.nearest(encoded, spans)
    signatures = row_signatures(encoded)
    strangers = _strangers(features, memory)
    has_axes = [max(row, default=0.0) > _TINY for row in encoded.distances.tolist()]
    unidentified = _unidentified(encoder, encoded)
    is_open = [min(codes, default=0) < 0 for codes in encoded.codes.tolist()]
    supports = []
    for row, codes in enumerate(encoded.codes.tolist()):
        levels = {name: column[row] for name, column in features.categorical.items()}
        unseen = _unseen(encoder, codes, levels) if is_open[row] else ()
        unknown = unidentified[row] + strangers[row]
        axes = _axes(features, encoder, encoded, row) if has_axes[row] else ()
        basis = _basis(
            measured=signatures[row] in memory.signatures and not unknown and not axes,
            described=bool(unseen) and transfer.is_described(encoded.codes[row], levels),
            rare=any(code in few for code, few in zip(codes, few_levels, strict=True)),
            n_unseen=len(unseen),
            outside=bool(axes),
            n_configurations=len(memory.names),
        )
        inside = not (axes or unseen or unknown)
        supports.append(Support(inside, axes, unseen, unknown, nearest[row], basis))
    return supports


def _unseen(
    encoder: Encoder, codes: Sequence[int], levels: Mapping[str, str | None]
) -> tuple[tuple[str, str], ...]:
    return tuple(
        (category.column, str(levels[category.column]))
        for category, code in zip(encoder.categories, codes, strict=True)
        if code == UNSEEN
    )


def _basis(
    *,
    measured: bool,
    described: bool,
    rare: bool,
    n_unseen: int,
    outside: bool,
    n_configurations: int,
) -> Basis:
    """Return the weakest link: unknown level, known by specification, out of range, inside."""
    if measured and not n_unseen:
        return "measured"
    # An instance type comes with its GPU type: both unseen are one unknown.
    if n_configurations <= 2 or (n_unseen and not described):  # noqa: PLR2004 - two show no trend
        return "prior"
    if n_unseen or rare:
        return "transferred"
    return "extrapolated" if outside else "interpolated"


def _spans(encoder: Encoder) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    spans = [feature.axis_span for feature in encoder.numeric if feature.used]
    return np.array(spans, dtype=np.float64)


def _axes(
    features: FeatureTable, encoder: Encoder, encoded: Encoded, row: int
) -> tuple[AxisSupport, ...]:
    outside = np.flatnonzero(encoded.distances[row] > _TINY)
    axes = [
        _axis(encoder.numeric[index], features, row, float(encoded.distances[row, index]))
        for index in outside
    ]
    return tuple(sorted(axes, key=lambda axis: -axis.distance))


def _axis(
    feature: NumericFeature, features: FeatureTable, row: int, distance: float
) -> AxisSupport:
    asked = float(features.numeric[feature.column][row])
    name = feature.column + _SUFFIX[feature.quotient]
    if feature.quotient:
        workers = float(features.numeric["workers"][row])
        asked = asked / workers if feature.quotient == "per_worker" else workers / asked
        name = "workers_per_node" if feature.quotient == "workers_per" else name
    return AxisSupport(name, asked, *_measured_range(feature), distance)


def _measured_range(feature: NumericFeature) -> tuple[float, float]:
    """Return the measured range in the column's own units."""
    ends = np.array([feature.low, feature.high]) + feature.center
    if feature.transform == "scaled":
        values = ends * feature.unit
    else:
        values = np.exp(ends) if feature.transform == "log" else np.expm1(ends) * feature.unit
    low, high = (float(f"{value:.12g}") for value in values)
    return low, high


def _unidentified(encoder: Encoder, encoded: Encoded) -> list[tuple[str, ...]]:
    """Return for each row the known columns whose effect on it the runs cannot show."""
    constant = np.array([feature.spread == 0 for feature in encoder.numeric], dtype=np.bool_)
    numeric = encoded.missing | (constant & (encoded.excess > _TINY))
    flags = np.hstack([numeric, encoded.codes == UNASKED])
    found: list[tuple[str, ...]] = [()] * len(flags)
    names = [*encoder.axis_names(), *(category.column for category in encoder.categories)]
    for row in np.flatnonzero(flags.any(axis=1)).tolist():
        found[row] = tuple(names[index] for index in np.flatnonzero(flags[row]).tolist())
    return found


def _strangers(features: FeatureTable, memory: Memory) -> list[tuple[str, ...]]:
    """Return for each row the columns with a value that no run has ever had."""
    strangers: list[tuple[str, ...]] = [()] * features.n_rows
    for name in sorted({*features.numeric, *features.categorical} - memory.known_columns):
        values = features.numeric.get(name)
        if values is None:
            given = [level is not None for level in features.categorical[name]]
        else:
            given = (~np.isnan(values)).tolist()
        strangers = [
            (*names, name) if is_given else names
            for names, is_given in zip(strangers, given, strict=True)
        ]
    return strangers
