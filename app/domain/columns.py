"""Objects of one form as columns."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def members_by_name(objects: Sequence[Any]) -> dict[str, Sequence[Any]] | None:
    """Return the members of objects that have the same names in the same order.

    None where they differ in form, where one of them is no object, and where there is none.

    Examples
    --------
    >>> members_by_name([{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    {'a': (1, 3), 'b': (2, 4)}
    >>> members_by_name([{"a": 1}, {"b": 1}]) is members_by_name([{"a": 1}, 1]) is None
    True
    """
    if set(map(type, objects)) != {dict}:
        return None
    forms = set(map(tuple, objects))
    if len(forms) != 1:
        return None
    columns = zip(*map(dict.values, objects), strict=True)
    return dict(zip(*forms, columns, strict=False))


def made_once(objects: Sequence[Given], make: Callable[[Given], Made]) -> list[Made]:
    """Return what `make` makes of each object; of one that repeats it is made once.

    Objects are told apart by their identity, which takes less time than comparing them.

    Examples
    --------
    >>> one = [1, 2]
    >>> first, second = made_once([one, one], sum), made_once([one, one], list)
    >>> first, second[0] is second[1]
    ([3, 3], True)
    """
    made = {name: make(each) for name, each in {id(each): each for each in objects}.items()}
    return [made[id(each)] for each in objects]
