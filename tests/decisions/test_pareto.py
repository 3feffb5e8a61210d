"""The Pareto front keeps every undominated point and no other."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.decisions.pareto import pareto_front, thin_front

_QUANTITY = st.one_of(st.integers(0, 6).map(float), st.just(float("nan")))
_POINTS = st.lists(st.tuples(_QUANTITY, _QUANTITY), max_size=40)


def _is_dominated(point: tuple[float, float], others: list[tuple[float, float]]) -> bool:
    return any(other[0] <= point[0] and other[1] <= point[1] and other != point for other in others)


@given(_POINTS)
def test_no_kept_point_is_dominated_and_no_dropped_point_undominated(
    points: list[tuple[float, float]],
) -> None:
    first = np.array([point[0] for point in points])
    second = np.array([point[1] for point in points])

    kept = set(pareto_front(first, second).tolist())

    known = [point for point in points if not np.isnan(point).any()]
    for index, point in enumerate(points):
        if np.isnan(point).any():
            assert index not in kept
        else:
            assert (index in kept) != _is_dominated(point, known)


def test_front_is_sorted_by_the_first_quantity() -> None:
    front = pareto_front(np.array([3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0]))

    assert front.tolist() == [1, 2, 0]


@given(st.integers(1, 30), st.integers(1, 12), st.data())
def test_thinned_front_keeps_a_point_in_place_of_the_nearest_between_its_ends(
    length: int, limit: int, data: st.DataObject
) -> None:
    front = np.arange(length)
    kept = data.draw(st.integers(0, length - 1))

    thinned, usual = (thin_front(front, limit, keep).tolist() for keep in (kept, None))

    assert kept in thinned
    assert len(thinned) == min(length, limit)
    assert thinned == sorted(set(thinned))
    ends = {0, length - 1} if limit > 2 else set()
    assert ends <= set(thinned)
    given_up = set(usual) - set(thinned)
    distances = {point: abs(point - kept) for point in usual if point not in ends}
    assert all(distances[point] == min(distances.values()) for point in given_up)
