"""Objects of one form as columns, and columns in which few objects repeat."""

from abc import abstractmethod
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any, Generic, TypeVar, overload

from typing_extensions import override

Given = TypeVar("Given")
Item_co = TypeVar("Item_co", covariant=True)
Made = TypeVar("Made")


class Rows(Sequence[Item_co], Generic[Item_co]):
    """A sequence that makes an item when it is accessed; a slice of it is a list."""

    __slots__ = ()

    @abstractmethod
    def row(self, index: int) -> Item_co:
        """Return one item."""

    @overload
    def __getitem__(self, index: int) -> Item_co: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item_co]: ...

    @override
    def __getitem__(self, index: int | slice) -> Item_co | list[Item_co]:
        if isinstance(index, slice):
            return [self.row(position) for position in range(len(self))[index]]
        return self.row(index)


class Repeated(Rows[Item_co]):
    """A column of few distinct objects: each object once, and its index for every row.

    Parameters
    ----------
    distinct
        The objects.
    places
        The index of each row's object among them, as 64-bit integers.

    Examples
    --------
    >>> column = Repeated(["a", "b"], array("q", [0, 1, 0]))
    >>> list(column), list(column.made(str.upper)), column[1], len(column)
    (['a', 'b', 'a'], ['A', 'B', 'A'], 'b', 3)
    """

    __slots__ = ("distinct", "places")

    def __init__(self, distinct: Sequence[Item_co], places: "array[int]") -> None:
        self.distinct, self.places = distinct, places

    @classmethod
    def of(cls, objects: Sequence[Given]) -> "Repeated[Given]":
        """Return a column of objects, in which repeated objects are recognised by identity."""
        if isinstance(objects, Repeated):
            return objects
        distinct = {id(item): item for item in objects}
        place_of = dict(zip(distinct, range(len(distinct)), strict=True))
        return Repeated(
            list(distinct.values()), array("q", map(place_of.__getitem__, map(id, objects)))
        )

    @classmethod
    def equal(cls, values: Sequence[Given]) -> "Repeated[Given]":
        """Return a column of hashable values, in which equal values are one object.

        Examples
        --------
        >>> Repeated.equal([0.5, 2, 0.5]).distinct
        [0.5, 2]
        """
        if not isinstance(values, Repeated):
            place_of = {value: place for place, value in enumerate(dict.fromkeys(values))}
            return Repeated(list(place_of), array("q", map(place_of.__getitem__, values)))
        merged = cls.equal(values.distinct)
        if len(merged.distinct) == len(values.distinct):
            return values
        return Repeated(merged.distinct, array("q", map(merged.places.__getitem__, values.places)))

    @classmethod
    def alone(cls, item: Given, n_rows: int) -> "Repeated[Given]":
        """Return a column of one object."""
        return Repeated([item], array("q", bytes(8 * n_rows)))

    def made(self, make: Callable[[Item_co], Made]) -> "Repeated[Made]":
        """Return the column of `make` applied to each object, once for all of its rows."""
        return Repeated(list(map(make, self.distinct)), self.places)

    @override
    def __len__(self) -> int:
        return len(self.places)

    @override
    def row(self, index: int) -> Item_co:
        return self.distinct[self.places[index]]

    @override
    def __iter__(self) -> Iterator[Item_co]:
        if len(self.distinct) == 1:
            return repeat(self.distinct[0], len(self.places))
        return map(self.distinct.__getitem__, self.places)


def zip_columns(*columns: Sequence[Any]) -> Repeated[tuple[Any, ...]]:
    """Return columns of the same rows as one column of tuples; objects compare by identity.

    Examples
    --------
    >>> one = Repeated(["a", "b"], array("q", [0, 1, 0]))
    >>> list(zip_columns(one, Repeated.alone(7, 3), one.made(str.upper)))
    [('a', 7, 'A'), ('b', 7, 'B'), ('a', 7, 'A')]
    """
    repeated = [Repeated.of(column) for column in columns]
    varied = [column for column in repeated if len(column.distinct) > 1]
    if all(column.places is varied[0].places for column in varied):
        places = (varied or repeated)[0].places
        n_distinct = len(varied[0].distinct) if varied else min(len(places), 1)
        aligned = [
            column.distinct if len(column.distinct) > 1 else [*column.distinct[:1]] * n_distinct
            for column in repeated
        ]
        return Repeated(list(zip(*aligned, strict=True)), places)
    # A combination is one integer, which is made and compared faster than a tuple.
    keys: Sequence[int] = varied[0].places
    for column in varied[1:]:
        n_distinct = len(column.distinct)
        keys = [key * n_distinct + place for key, place in zip(keys, column.places, strict=True)]
    combinations = Repeated.equal(keys)
    first = dict(zip(reversed(keys), range(len(keys) - 1, -1, -1), strict=True))
    return combinations.made(lambda key: tuple(column[first[key]] for column in repeated))


def members_by_name(objects: Sequence[Any]) -> dict[str, Sequence[Any]] | None:
    """Return the members of JSON objects with the same names, in the order of the first object.

    None if their names differ, one of them is not an object, or there are none.

    Examples
    --------
    >>> members_by_name([{"a": 1, "b": 2}, {"b": 4, "a": 3}])
    {'a': [1, 3], 'b': [2, 4]}
    >>> members_by_name([{"a": 1}, {"b": 1}]) is members_by_name([{"a": 1}, 1]) is None
    True
    """
    if set(map(type, objects)) != {dict} or len(set(map(len, objects))) > 1:
        return None
    try:
        return {name: list(map(itemgetter(name), objects)) for name in objects[0]}
    except KeyError:
        return None


def map_distinct(objects: Sequence[Given], make: Callable[[Given], Made]) -> list[Made]:
    """Return `make` applied to each object, only once to a repeated one.

    Objects are distinguished by identity, which is faster than comparing them.

    Examples
    --------
    >>> one = [1, 2]
    >>> first, second = map_distinct([one, one], sum), map_distinct([one, one], list)
    >>> first, second[0] is second[1]
    ([3, 3], True)
    """
    return list(Repeated.of(objects).made(make))
