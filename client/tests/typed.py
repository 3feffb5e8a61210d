"""Compares what was answered with what type checkers are told of it."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterator


def misfits(value: object, kind: Any, place: str) -> Iterator[str]:
    """Yield the places of a document whose values are not of their type, or that are missing."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if typing.is_typeddict(kind):
        yield from _misfits_of_document(value, kind, place)
    elif origin in {typing.Union, types.UnionType}:
        if all(any(misfits(value, part, place)) for part in parts):
            yield f"{place} {value!r}"
    elif origin is not None and isinstance(value, origin):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in pairs:
            yield from misfits(each, parts[-1], f"{place}.{name}")
    elif not isinstance(value, int | float if kind is float else origin or kind):
        yield f"{place} {value!r}"


def _misfits_of_document(value: Any, kind: Any, place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place} {value!r}"
        return
    for name, each in get_type_hints(kind).items():
        if name in value:
            yield from misfits(value[name], each, f"{place}.{name}")
        elif name in kind.__required_keys__:
            yield f"{place}.{name} is missing"
