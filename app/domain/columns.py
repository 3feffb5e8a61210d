"""Objects of one form as columns."""

from collections.abc import Sequence
from typing import Any


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
