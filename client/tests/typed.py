"""Compares what was answered with what type checkers are told of it."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterator


def mismatches(value: object, kind: Any, place: str) -> Iterator[str]:
    """Yield the places of a document whose values are not of their type, or that are missing."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return
    if typing.is_typeddict(kind):
        yield from _document_mismatches(value, kind, place)
    elif origin in {typing.Union, types.UnionType}:
        if all(any(mismatches(value, part, place)) for part in parts):
            yield f"{place} {value!r}"
    elif origin is not None and isinstance(value, origin):
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for name, element in pairs:
            yield from mismatches(element, parts[-1], f"{place}.{name}")
    elif not isinstance(value, int | float if kind is float else origin or kind):
        yield f"{place} {value!r}"


def _document_mismatches(value: Any, kind: Any, place: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{place} {value!r}"
        return
    for name, member_kind in get_type_hints(kind).items():
        if name in value:
            yield from mismatches(value[name], member_kind, f"{place}.{name}")
        elif name in kind.__required_keys__:
            yield f"{place}.{name} is missing"
