"""Untrusted JSON as dataclasses of the library, with every type and bound checked."""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

MAX_TEXT = 10_000
MAX_ITEMS = 1_000_000
MAX_NUMBER = 1e101
MAX_WHOLE = 2**53

Kind = TypeVar("Kind")


def json_reader(kind: type[Kind], *, allows_nan: bool = False) -> Callable[[object], Kind]:
    """Return a function that reads a JSON value as a dataclass.

    The fields are resolved here, once, since that takes longer than reading a value.

    Parameters
    ----------
    kind
        The dataclass. Its fields are numbers, strings, booleans, None, literals, dataclasses, and
        tuples, mappings and unions of them.
    allows_nan
        Whether a number may be null, which is read as NaN (an error that was never measured).

    Returns
    -------
    Callable[[object], Kind]
        Takes a value from `json.loads`. Raises ValueError if a key is missing or unknown, a type is
        wrong, or a number or length is out of bounds.

    Examples
    --------
    >>> from models.reports import ChangePoint
    >>> read_change = json_reader(ChangePoint)
    >>> read_change({"at": 5.0, "shift": 1})
    ChangePoint(at=5.0, shift=1.0)
    >>> read_change({"at": "noon", "shift": 1})
    Traceback (most recent call last):
    ...
    ValueError: at: 'noon' is no number within bounds
    """
    reader: Callable[[object], Kind] = _reader(kind, allows_nan)
    return reader


def read_number(value: object, *, allows_nan: bool = False) -> float:
    """Return a number within the bounds of the library.

    Raises
    ------
    ValueError
        If the value is not one.

    Examples
    --------
    >>> read_number(2)
    2.0
    """
    if type(value) is float and -MAX_NUMBER <= value <= MAX_NUMBER:
        return value
    if value is None and allows_nan:
        return float("nan")
    if type(value) not in (int, float):
        raise ValueError(f"{str(value)[:40]!r} is no number within bounds")
    if not -MAX_NUMBER <= value <= MAX_NUMBER:  # type: ignore[operator] # it is int or float
        raise ValueError(f"{str(value)[:40]} is no number within bounds")
    return float(value)  # type: ignore[arg-type] # as above


def read_texts(value: object) -> tuple[str, ...]:
    """Return a list of strings.

    Raises
    ------
    ValueError
        If the value is not one, or a string is too long.

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


_Reader = Callable[[object], Any]


def _reader(kind: Any, allows_nan: bool) -> _Reader:  # noqa: FBT001 - passed on
    if kind is float:
        return partial(read_number, allows_nan=allows_nan)
    if kind in (int, str, bool):
        return partial(_read_plain, kind)
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        readers = {name: _reader(hint, allows_nan) for name, hint in hints.items()}
        return partial(_read_fields, kind, readers)
    arguments = get_args(kind)
    if get_origin(kind) is Literal:
        return partial(_read_literal, arguments)
    parts = [
        _reader(argument, allows_nan)
        for argument in arguments
        if argument not in (Ellipsis, types.NoneType)
    ]
    if get_origin(kind) in (Union, types.UnionType):
        assert types.NoneType in arguments
        return partial(_read_optional, parts[0])
    if get_origin(kind) is tuple:
        return partial(_read_list if Ellipsis in arguments else _read_tuple, parts)
    assert issubclass(get_origin(kind) or kind, Mapping)
    return partial(_read_mapping, parts[1])


def _read_fields(kind: type[Any], readers: Mapping[str, _Reader], value: object) -> Any:
    if not isinstance(value, dict) or value.keys() != readers.keys():
        raise ValueError(f"{kind.__name__} has not the keys that it should have")
    arguments = {}
    for name, read in readers.items():
        try:
            arguments[name] = read(value[name])
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    return kind(**arguments)


def _read_plain(kind: type[int | str | bool], value: object) -> int | str | bool:
    is_fitting = type(value) is kind
    if isinstance(value, str):
        is_fitting = is_fitting and len(value) <= MAX_TEXT
    elif isinstance(value, int):
        is_fitting = is_fitting and abs(value) <= MAX_WHOLE
    if not is_fitting:
        raise _another_type(value)
    assert isinstance(value, int | str)
    return value


def _read_literal(words: tuple[str, ...], value: object) -> str:
    if not isinstance(value, str) or value not in words:
        raise _another_type(value)
    return value


def _read_optional(read: _Reader, value: object) -> Any:
    return None if value is None else read(value)


def _read_list(readers: Sequence[_Reader], value: object) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ValueError("what should be a list is none")  # noqa: TRY004 - a fault of the data
    _check_length(value)
    return tuple(map(readers[0], value))


def _read_tuple(readers: Sequence[_Reader], value: object) -> tuple[Any, ...]:
    if not isinstance(value, list) or len(value) != len(readers):
        raise ValueError("a list has another length than it should have")
    return tuple(read(item) for read, item in zip(readers, value, strict=True))


def _read_mapping(read: _Reader, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _another_type(value)
    _check_length(value)
    if max(map(len, value), default=0) > MAX_TEXT:
        raise ValueError("a key is too long")
    return {key: read(item) for key, item in value.items()}


def _check_length(value: list[object] | dict[str, object]) -> None:
    if len(value) > MAX_ITEMS:
        raise ValueError("a list or table is too long")


def _another_type(value: object) -> ValueError:
    return ValueError(f"{str(value)[:40]!r} is not of the type that it should be")
