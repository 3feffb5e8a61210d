"""Held-out sets imitate the questions that they test: what they learn from and what they ask."""

from collections.abc import Mapping, Sequence

import pytest

from models.features.encoder import Encoder
from models.questions.regimes import Fold, axis_folds, map_regimes, transfer_folds
from tests.models.workloads import grid, make_features

Row = Mapping[str, float | str]


def folds_of(rows: Sequence[Row]) -> list[Fold]:
    """Return the held-out sets beyond the axes and for other levels."""
    features = make_features(rows)
    encoder = Encoder.learn(features)
    encoded = encoder.encode(features)
    regimes = map_regimes(encoder, encoder.layout, encoded.X, encoded.codes)
    folds = [
        *axis_folds(encoder, regimes, encoded.X),
        *transfer_folds(encoder, encoded.codes, regimes),
    ]
    for fold in folds:
        assert sorted([*fold.train, *fold.test]) == list(range(len(rows)))
    return folds


def asked(rows: Sequence[Row], column: str) -> list[list[float | str]]:
    """Return the values of a column that each of its held-out sets asks for."""
    return [
        sorted({rows[row][column] for row in fold.test.tolist()}, key=float)
        for fold in folds_of(rows)
        if fold.regime == column
    ]


def test_the_last_level_and_the_upper_two_fifths_of_an_axis_are_held_out() -> None:
    rows = grid((1, 2, 4, 8, 16), (1000, 2000, 4000), ("V100",))

    assert asked(rows, "workers") == [[16], [8, 16]]
    assert asked(rows, "dataset_size") == [[4000], [2000, 4000]]
    assert asked(grid((1, 2, 4, 8), (1000, 4000), ("V100",)), "dataset_size") == []


def test_nothing_is_held_out_that_leaves_too_little_to_learn_from() -> None:
    rows = grid((1, 2, 4), (1000, 2000, 4000))
    two_on_one_worker = [*grid((1,), (1000,)), *grid((2, 4), (1000, 2000, 4000))]

    assert asked(rows, "workers") == [[4], [2, 4]]
    assert asked(two_on_one_worker, "workers") == [[4]]


@pytest.mark.parametrize(("n_rare", "n_kept"), [(0, 3), (2, 2)])
def test_as_few_runs_of_a_level_are_kept_as_the_rarest_has(n_rare: int, n_kept: int) -> None:
    rows = grid((1, 2, 4, 8), (1000, 4000), ("V100", "K80"))
    rows += grid((1,), (1000, 4000)[:n_rare], ("T4",))

    folds = [fold for fold in folds_of(rows) if fold.regime == "gpu_type"]

    tested = [{rows[row]["gpu_type"] for row in fold.test.tolist()} for fold in folds]
    assert sorted(map(sorted, tested)) == [["K80"], ["V100"]]
    assert [len(fold.test) for fold in folds] == [8 - n_kept] * 2


def test_a_level_that_most_runs_have_is_not_held_out() -> None:
    rows = grid((1, 2, 4, 8), (1000, 2000, 4000, 8000), ("V100",))
    rows += grid((1, 2), (1000,), ("K80",))

    assert "gpu_type" not in {fold.regime for fold in folds_of(rows)}
