"""Validates thousands of requests of one form column by column, with the request models' types.

The first request is validated as a whole and holds what all share; of the others only the entries'
own values are validated, each column in one call.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final

import orjson
from pydantic import ConfigDict, TypeAdapter, ValidationError

from app.api.schemas.base import RequestModel
from app.api.schemas.forecasts import (
    ConfigurationIn,
    ForecastIn,
    ParameterIn,
    WorkIn,
)
from app.domain.columns import Repeated, members_by_name

Column = Sequence[Any]
Check = Callable[[Column], Column]
Columns = dict[str, Column]
_GROUPS: Final[Mapping[str, type[RequestModel]]] = {
    "configuration": ConfigurationIn,
    "work": WorkIn,
}
_PARAMETERS: Final = "parameters"
_UNSPLIT: Final = frozenset({"pricing", "energy"})
"""Groups that force requests to be read one by one: entries rarely have their own."""

_FINITE: Final = ConfigDict(allow_inf_nan=False)
_TEXTS, _NUMBERS = frozenset({str, NoneType}), frozenset({int, float, NoneType})
_FLAGS = frozenset({bool})
_PLAIN = _TEXTS | _NUMBERS | _FLAGS
_VARIED: Final[list[object]] = []
"""Placeholder for a value that is not shared; a shared value is never a list."""


class NotColumnsError(ValueError):
    """The entries differ in form or one violates the schema: they must be read one by one."""


def members_of(entries: Sequence[Mapping[str, Any]]) -> dict[str, Columns]:
    """Return the values of entries as columns, by group; values outside groups are under "".

    Raises
    ------
    NotColumnsError
        If the entries differ in form.
    """
    columns = _columns(entries)
    groups = [group for group in (*_GROUPS, _PARAMETERS) if group in columns]
    sent = {group: columns.pop(group) for group in groups}
    members = {group: _columns(rows) for group, rows in sent.items()}
    # Answers list parameters in the order in which they were sent.
    if _PARAMETERS in sent and len(set(map(tuple, sent[_PARAMETERS]))) > 1:
        raise NotColumnsError
    return {"": columns, **members}


def split_form(members: Mapping[str, Columns]) -> tuple[dict[str, Columns], bytes]:
    """Return the columns that differ between entries, and a text of the rest: their form.

    Entries with the same form have the same member names in the same order, and the same shared
    values.

    Raises
    ------
    NotColumnsError
        If a value cannot be represented in JSON.

    Examples
    --------
    >>> split_form({"": {"a": [1, 1], "b": [2, 3]}, "work": {"c": [1, True]}})
    ({'': {'b': [2, 3]}, 'work': {'c': [1, True]}}, b'{"":{"a":1,"b":[]},"work":{"c":[]}}')
    """
    varied: dict[str, Columns] = {}
    form: dict[str, dict[str, object]] = {}
    for group, columns in members.items():
        varied_of_group = varied[group] = {
            name: column for name, column in columns.items() if not _is_shared(column)
        }
        form[group] = {
            name: _VARIED if name in varied_of_group else column[0]
            for name, column in columns.items()
        }
    try:
        return varied, orjson.dumps(form)
    except orjson.JSONEncodeError as error:
        raise NotColumnsError from error


def _is_shared(column: Column) -> bool:
    """Whether all values of a column are the same text, number, flag or null."""
    first = column[0]
    kind = type(first)
    # Equal numbers may still differ in type, and zeros in sign.
    if kind not in _PLAIN or (kind is float and not first) or column.count(first) < len(column):
        return False
    return kind is str or {*map(type, column)} == {kind}


def checked(members: Mapping[str, Mapping[str, Column]]) -> dict[str, Columns]:
    """Return the columns validated by the request models' types, without `ref`.

    Raises
    ------
    NotColumnsError
        If a value is refused, or cannot be validated by column.
    """
    if members.keys() - {"", *_GROUPS, _PARAMETERS} or _UNSPLIT & members[""].keys():
        raise NotColumnsError
    try:
        return {
            group: {
                name: _checked(group, name, column)
                for name, column in columns.items()
                if group or name != "ref"
            }
            for group, columns in members.items()
        }
    except ValidationError as error:
        raise NotColumnsError from error


def _columns(rows: Sequence[Any]) -> Columns:
    columns = members_by_name(rows)
    if columns is None:
        raise NotColumnsError
    return columns


def _checked(group: str, name: str, column: Column) -> Column:
    if isinstance(column, Repeated):
        return Repeated(list(_checked(group, name, column.distinct)), column.places)
    check, kinds = _check(group, name), set(map(type, column))
    if group == _PARAMETERS and kinds <= _NUMBERS:
        # Skips the union of types, which would be resolved for each value.
        check = _check_numbers()
    if kinds <= _TEXTS:
        distinct = list(set(column))
        if kinds == {str} and len(distinct) == 1:
            return Repeated.alone(check(distinct)[0], len(column))
        validated = dict(zip(distinct, check(distinct), strict=True))
        return list(map(validated.__getitem__, column))
    if not (kinds <= _NUMBERS or (kinds == _FLAGS and not group)):  # a flag parameter becomes text
        raise NotColumnsError
    return check(column)


@cache
def _adaptable(model: type[RequestModel]) -> frozenset[str]:
    # Cached because it is needed for each column: `model_fields` takes ten times as long.
    return frozenset(model.model_fields) - {*_GROUPS, _PARAMETERS}


@cache
def _check_of(model: type[RequestModel], name: str) -> Check:
    info = model.model_fields[name]
    annotation: Any = info.annotation
    for constraint in info.metadata:
        annotation = Annotated[annotation, constraint]
    return _validator(list[annotation])


@cache
def _check_numbers() -> Check:
    return _validator(list[float])


@cache
def _check_parameters() -> Check:
    return _validator(list[ParameterIn])


def _validator(kind: Any) -> Check:
    # The adapter's own method evaluates its options at each call.
    return TypeAdapter(kind, config=_FINITE).validator.validate_python


def _check(group: str, name: str) -> Check:
    if group == _PARAMETERS:
        return _check_parameters()
    model = _GROUPS.get(group, ForecastIn)
    if name not in _adaptable(model):
        raise NotColumnsError
    return _check_of(model, name)
