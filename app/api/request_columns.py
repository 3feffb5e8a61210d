"""Reads thousands of requests of one form column by column, by the types of the request models.

The first request is read whole and tells what all share; of the others only what the entries of a
batch bring themselves is looked at, each column in one call.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType
from typing import Annotated, Any, Final, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError

from app.api.schemas.base import RequestModel
from app.api.schemas.forecasts import (
    ConfigurationIn,
    ForecastIn,
    Parameters,
    WorkIn,
)
from app.domain.columns import members_by_name

Column = Sequence[Any]
Columns = dict[str, Column]
_GROUPS: Final[Mapping[str, type[RequestModel]]] = {
    "configuration": ConfigurationIn,
    "work": WorkIn,
}
_PARAMETERS: Final = "parameters"
_WHOLE: Final = frozenset({"pricing", "energy"})
"""Groups that are read with each request: seldom does an entry bring its own."""

_FINITE: Final = ConfigDict(allow_inf_nan=False)
_TEXTS, _NUMBERS = frozenset({str, NoneType}), frozenset({int, float, NoneType})
_FLAGS = frozenset({bool})


class NotColumnsError(ValueError):
    """The entries differ in form, or one of them breaks the schema: they are read one by one."""


def members_of(entries: Sequence[Mapping[str, Any]]) -> dict[str, Columns]:
    """Return the values that entries bring, by group; those beside groups under "".

    Raises
    ------
    NotColumnsError
        If the entries differ in form.
    """
    columns = _columns(entries)
    groups = [group for group in (*_GROUPS, _PARAMETERS) if group in columns]
    sent = {group: columns.pop(group) for group in groups}
    # Answers tell parameters in the order in which they were sent.
    if _PARAMETERS in sent and len(set(map(tuple, sent[_PARAMETERS]))) > 1:
        raise NotColumnsError
    return {"": columns, **{group: _columns(members) for group, members in sent.items()}}


def checked(members: Mapping[str, Columns]) -> dict[str, Columns]:
    """Return the values that entries bring as the request models read them, but for `ref`.

    Raises
    ------
    NotColumnsError
        If one of them is refused, or cannot be checked so.
    """
    if members.keys() - {"", *_GROUPS, _PARAMETERS} or _WHOLE & members[""].keys():
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
    adapter, kinds = _adapter(group, name), set(map(type, column))
    if adapter is _parameter_adapter() and kinds <= _NUMBERS:
        # Which of their types it is does not have to be found out for each.
        adapter = _number_adapter()
    if kinds <= _TEXTS:
        distinct = list(set(column))
        meanings = dict(zip(distinct, adapter.validate_python(distinct), strict=True))
        return list(map(meanings.__getitem__, column))
    if not (kinds <= _NUMBERS or (kinds == _FLAGS and not group)):  # a parameter's is a word
        raise NotColumnsError
    checked: Column = adapter.validate_python(column)
    return checked


@cache
def _adaptable(model: type[RequestModel]) -> frozenset[str]:
    # Asked for each column: the model's own table of its fields takes ten times as long.
    return frozenset(model.model_fields) - {*_GROUPS, _PARAMETERS}


@cache
def _adapter_of(model: type[RequestModel], name: str) -> TypeAdapter[list[Any]]:
    info = model.model_fields[name]
    annotation: Any = info.annotation
    for constraint in info.metadata:
        annotation = Annotated[annotation, constraint]
    return TypeAdapter(list[annotation], config=_FINITE)


@cache
def _number_adapter() -> TypeAdapter[list[Any]]:
    return TypeAdapter(list[float], config=_FINITE)


@cache
def _parameter_adapter() -> TypeAdapter[list[Any]]:
    _, value = get_args(get_args(Parameters)[0])
    return TypeAdapter(list[value], config=_FINITE)  # type: ignore[valid-type]  # found at run time


def _adapter(group: str, name: str) -> TypeAdapter[list[Any]]:
    if group == _PARAMETERS:
        return _parameter_adapter()
    model = _GROUPS.get(group, ForecastIn)
    if name not in _adaptable(model):
        raise NotColumnsError
    return _adapter_of(model, name)
