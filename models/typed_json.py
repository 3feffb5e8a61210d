"""JSON that somebody else wrote as dataclasses of the library: every type and bound checked."""

import types
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

MAX_TEXT = 10_000
MAX_ITEMS = 1_000_000
MAX_NUMBER = 1e101
MAX_WHOLE = 2**53

Kind = TypeVar("Kind")


def read_json(kind: type[Kind], value: object, *, allows_nan: bool = False) -> Kind:
    """Return a value of JSON as a dataclass.

    Parameters
    ----------
    kind
        The dataclass. Its fields are numbers, words, truth values, None, literals, dataclasses,
        and tuples, mappings and unions of them.
    value
        What `json.loads` gave.
    allows_nan
        Whether a number may be null, which is NaN here (an error that was never measured).

    Raises
    ------
    ValueError
        If a key is missing or too many, a type is another, or a number or length is out of bounds.

    Examples
    --------
    >>> from models.reports import ChangePoint
    >>> read_json(ChangePoint, {"at": 5.0, "shift": 1})
    ChangePoint(at=5.0, shift=1.0)
    >>> read_json(ChangePoint, {"at": "noon", "shift": 1})
    Traceback (most recent call last):
    ...
    ValueError: at: 'noon' is no number within bounds
    """
    found: Kind = _read_fields(kind, value, allows_nan)
    return found


def read_number(value: object, *, allows_nan: bool = False) -> float:
    """Return a number within the bounds of the library.

    Raises
    ------
    ValueError
        If it is none.

    Examples
    --------
    >>> read_number(2)
    2.0
    """
    if value is None and allows_nan:
        return float("nan")
    if type(value) not in (int, float):
        raise ValueError(f"{str(value)[:40]!r} is no number within bounds")
    if not -MAX_NUMBER <= value <= MAX_NUMBER:  # type: ignore[operator] # it is int or float
        raise ValueError(f"{str(value)[:40]} is no number within bounds")
    return float(value)  # type: ignore[arg-type] # as above


def read_texts(value: object) -> tuple[str, ...]:
    """Return a list of words.

    Raises
    ------
    ValueError
        If it is none, or one is too long.

    Examples
    --------
    >>> read_texts(["a", "b"])
    ('a', 'b')
    """
    if not isinstance(value, list) or len(value) > MAX_ITEMS:
        raise ValueError("a list is none, or too long")
    if set(map(type, value)) - {str} or max(map(len, value), default=0) > MAX_TEXT:
        raise ValueError("a list holds what is no word, or one that is too long")
    return tuple(value)


_HINTS: dict[type[Any], dict[str, Any]] = {}
"""Types of the fields of the dataclasses met so far: finding them takes longer than reading."""


def _read_fields(kind: type[Any], value: object, allows_nan: bool) -> Any:  # noqa: FBT001 - passed on
    hints = _HINTS.get(kind) or get_type_hints(kind)
    _HINTS[kind] = hints
    names = set(hints)
    if not isinstance(value, dict) or set(value) != names:
        raise ValueError(f"{kind.__name__} has not the keys that it should have")
    found = {}
    for name, item in value.items():
        try:
            found[name] = _read(hints[name], item, allows_nan)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return kind(**found)


def _read(kind: Any, value: object, allows_nan: bool) -> Any:  # noqa: FBT001 - passed on
    if kind is float:
        return read_number(value, allows_nan=allows_nan)
    if kind in (int, str, bool):
        return _read_plain(kind, value)
    if is_dataclass(kind):
        return _read_fields(kind, value, allows_nan)  # type: ignore[arg-type] # a class, no instance
    return _read_generic(get_origin(kind), get_args(kind), value, allows_nan)


def _read_generic(origin: Any, arguments: tuple[Any, ...], value: object, allows_nan: bool) -> Any:  # noqa: FBT001 - passed on
    if origin is Literal and isinstance(value, str) and value in arguments:
        return value
    if origin in (Union, types.UnionType):
        is_none = value is None and type(None) in arguments
        return None if is_none else _read(arguments[0], value, allows_nan)
    if origin is tuple:
        return _read_tuple(arguments, value, allows_nan)
    if isinstance(origin, type) and issubclass(origin, Mapping) and isinstance(value, dict):
        _check_length(value)
        keys = (_read_plain(str, key) for key in value)
        items = (_read(arguments[1], item, allows_nan) for item in value.values())
        return dict(zip(keys, items, strict=True))
    raise ValueError(f"{str(value)[:40]!r} is not of the type that it should be")


def _read_plain(kind: type[int | str | bool], value: object) -> int | str | bool:
    is_fitting = type(value) is kind
    if isinstance(value, str):
        is_fitting = is_fitting and len(value) <= MAX_TEXT
    elif isinstance(value, int):
        is_fitting = is_fitting and abs(value) <= MAX_WHOLE
    if not is_fitting:
        raise ValueError(f"{str(value)[:40]!r} is not of the type that it should be")
    assert isinstance(value, int | str)
    return value


def _read_tuple(arguments: tuple[Any, ...], value: object, allows_nan: bool) -> tuple[Any, ...]:  # noqa: FBT001 - passed on
    if not isinstance(value, list):
        raise ValueError("what should be a list is none")  # noqa: TRY004 - a fault of the data
    _check_length(value)
    if arguments[1:] == (Ellipsis,):
        return tuple(_read(arguments[0], item, allows_nan) for item in value)
    if len(value) != len(arguments):
        raise ValueError("a list has another length than it should have")
    return tuple(_read(kind, item, allows_nan) for kind, item in zip(arguments, value, strict=True))


def _check_length(value: list[object] | dict[str, object]) -> None:
    if len(value) > MAX_ITEMS:
        raise ValueError("a list or table is too long")
