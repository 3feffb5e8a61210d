"""Columns of few distinct objects are read as the rows that they stand for."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from app.domain.columns import Repeated, members_by_name, zip_columns

letters = st.lists(st.sampled_from(["a", "b", "c"]), max_size=8)


@given(letters)
def test_a_column_reads_as_the_objects_it_was_made_of(objects: list[str]) -> None:
    column = Repeated.of(objects)

    assert list(column) == objects
    assert [column[row] for row in range(len(column))] == objects
    assert column[1:3] == objects[1:3]
    assert list(column.made(str.upper)) == [each.upper() for each in objects]


def test_what_is_made_of_an_object_is_made_once() -> None:
    asked: list[str] = []

    def doubled(each: str) -> str:
        asked.append(each)
        return each * 2

    column = Repeated.of(["a", "b", "a"]).made(doubled)

    assert list(column) == ["aa", "bb", "aa"]
    assert asked == ["a", "b"]


@given(st.lists(st.tuples(*[st.sampled_from(["a", "b", "c"])] * 3), max_size=8))
def test_columns_beside_each_other_read_as_rows(rows: list[tuple[str, ...]]) -> None:
    columns = [[row[place] for row in rows] for place in range(3)]

    together = zip_columns(*columns, Repeated.alone("d", len(rows)))

    assert list(together) == [(*row, "d") for row in rows]
    assert len({*together.distinct}) == len(together.distinct)


def test_columns_of_the_same_places_stay_apart_by_these() -> None:
    places = array("q", [0, 1, 0])

    together = zip_columns(Repeated([1, 2], places), Repeated([3, 3], places))

    assert together.places is places
    assert list(together) == [(1, 3), (2, 3), (1, 3)]


def test_members_are_found_in_any_order_but_not_where_a_name_is_missing() -> None:
    assert members_by_name([{"a": 1, "b": 2}, {"b": 4, "a": 3}]) == {"a": [1, 3], "b": [2, 4]}
    assert members_by_name([{"a": 1, "b": 2}, {"a": 3}]) is None
    assert members_by_name([{"a": 1}, {"b": 3}]) is None
    assert members_by_name([]) is None
