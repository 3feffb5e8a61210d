"""Levels that name a number of bits: their prior effects on memory, and the order of these."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from models.tables import FloatArray

LEVEL_SD: Final = 0.5
"""Prior standard deviation of a level's effect on the log of the memory."""

WIDTHS: Final = (8, 16, 32, 64)
_BITS = re.compile(
    r"(?:(?:fp|float|bf|bfloat|int|tf)(8|16|32|64)(?:-mixed|-true)?|(?<!\d)(8|16|32|64)-(?:mixed|true))$",
    re.IGNORECASE,
)
_HALF = 0.5


@lru_cache(maxsize=1024)
def bits_of(level: str) -> int | None:
    """Return the number of bits in a level's name, as frameworks name precisions.

    Examples
    --------
    >>> [bits_of(name) for name in ("fp16", "bf16-mixed", "32-true", "TF32", "adam", "16")]
    [16, 16, 32, 32, None, None]
    """
    match = _BITS.search(level)
    return int(match.group(1) or match.group(2)) if match else None


def prior_effect(level: str) -> float:
    """Return the prior log effect on memory of a level, by the bits in its name.

    Optimiser states often stay in 32 bits, so half the bits save less than half of the memory.

    Examples
    --------
    >>> round(prior_effect("fp16"), 3), prior_effect("tf32"), prior_effect("adam")
    (-0.347, 0.0, 0.0)
    """
    bits = bits_of(level)
    return 0.0 if bits is None else _expected_effect(bits)


def names_bits(levels: Sequence[str]) -> bool:
    """Whether any level of a category names bits."""
    return any(bits_of(level) is not None for level in levels)


def effect_column(level: str | None, known: Sequence[str]) -> int | None:
    """Return the column of `ordered_effects` for a level of a category, None if it has none.

    If a known level names bits, `WIDTHS` follow the known levels as columns for unseen ones.
    """
    if level in known:
        return known.index(level)
    bits = None if level is None else bits_of(level)
    if bits is None or not names_bits(known):
        return None
    return len(known) + WIDTHS.index(bits)


def count_columns(known: Sequence[str]) -> int:
    """Return the number of columns of a category in `ordered_effects`."""
    return len(known) + (len(WIDTHS) if names_bits(known) else 0)


def ordered_effects(
    known_effects: FloatArray, unseen: FloatArray, categories: Iterable[Sequence[str]]
) -> FloatArray:
    """Return the effects of levels such that fewer bits never take more memory, in any draw.

    Parameters
    ----------
    known_effects
        Effects of the known levels of all categories, shape (n_draws, n_levels).
    unseen
        Deviation of unseen levels from their prior effects, in units of `LEVEL_SD`, shape
        (n_draws,).
    categories
        The known levels of each category.

    Returns
    -------
    Effects by `effect_column`, category after category, shape (n_draws, n_columns). A level takes
    at most as much as those with more bits; an unseen one lies between its neighbours, or has the
    least effect of the known levels with the same bits if there are any.

    Examples
    --------
    >>> ordered_effects(np.array([[0.3, 0.1]]), np.zeros(1), [("fp16", "fp32")]).round(2).tolist()
    [[0.1, 0.1, -0.69, 0.1, 0.1, 0.35]]
    """
    columns, first = [known_effects[:, :0]], 0
    for levels in categories:
        columns.append(
            _category_effects(known_effects[:, first : first + len(levels)], unseen, levels)
        )
        first += len(levels)
    return np.concatenate(columns, axis=1)


def _category_effects(
    known_effects: FloatArray, unseen: FloatArray, levels: Sequence[str]
) -> FloatArray:
    columns_of: dict[int, list[int]] = {}
    for column, level in enumerate(levels):
        bits = bits_of(level)
        if bits is not None:
            columns_of.setdefault(bits, []).append(column)
    if not columns_of:
        return known_effects
    effects = known_effects.copy()
    ceiling = np.full(len(known_effects), np.inf)
    ceilings, floors = {}, {}
    for width in sorted(columns_of, reverse=True):
        effects[:, columns_of[width]] = np.minimum(
            known_effects[:, columns_of[width]], ceiling[:, None]
        )
        ceilings[width] = ceiling = effects[:, columns_of[width]].min(axis=1)
        floors[width] = effects[:, columns_of[width]].max(axis=1)
    unseen_effects = []
    for width in WIDTHS:
        effect = _expected_effect(width) + LEVEL_SD * unseen
        below, above = [w for w in columns_of if w <= width], [w for w in columns_of if w >= width]
        if below:
            effect = np.maximum(effect, floors[max(below)])
        if above:
            effect = np.minimum(effect, ceilings[min(above)])
        unseen_effects.append(effect)
    return np.column_stack([effects, *unseen_effects])


def _expected_effect(bits: int) -> float:
    return _HALF * float(np.log(bits / 32))
