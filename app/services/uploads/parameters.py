"""Whether a parameter is a number or a category: fixed by its declaration or its first use."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from app.domain.identifiers import Slug
from app.domain.workloads import ParameterType, Workload
from app.services.uploads.chunks import Chunk
from app.services.uploads.faults import FaultCollector
from app.services.uploads.fields import PARAMETER
from app.services.uploads.numbers import is_number

ParameterKey = tuple[Slug, str]
"""A workload and the name of one of its parameters."""
_ALWAYS_CATEGORY: Final = frozenset({"framework"})


class ParameterUses:
    """How the rows of one upload use the parameters of their workloads."""

    def __init__(self) -> None:
        self._seen: set[ParameterKey] = set()
        self._with_words: set[ParameterKey] = set()
        self._with_typed_numbers: set[ParameterKey] = set()

    def look_at(self, chunk: Chunk) -> None:
        """Note the parameters of a chunk and the kinds of values that they have."""
        workloads = chunk.texts["workload"]
        for field, cells in chunk.parameters.items():
            name = field.removeprefix(PARAMETER)
            pairs = set(zip(workloads, cells, strict=True))
            for slug, cell in pairs:
                if slug is None or cell is None:
                    continue
                key = (Slug(slug), name)
                self._seen.add(key)
                if not is_number(cell, is_typed=chunk.is_typed):
                    self._with_words.add(key)
                elif chunk.is_typed:
                    self._with_typed_numbers.add(key)

    def resolve(self, workloads: Mapping[Slug, Workload]) -> dict[ParameterKey, ParameterType]:
        """Return each parameter's type: the stored one, else a number if all values are numbers."""
        types = {}
        for slug, name in self._seen:
            workload = workloads.get(slug)
            declared = workload.declaration.parameters.get(name) if workload else None
            has_words = (slug, name) in self._with_words or name in _ALWAYS_CATEGORY
            first_use = ParameterType.CATEGORY if has_words else ParameterType.NUMBER
            types[slug, name] = declared.type if declared else first_use
        return types

    def drifting(self, types: Mapping[ParameterKey, ParameterType]) -> set[ParameterKey]:
        """Return the parameters that have values of the other type.

        A CSV cell has no type of its own: "16" can be a category's value.
        """
        numbers = {key for key, kind in types.items() if kind is ParameterType.NUMBER}
        return (self._with_words & numbers) | (self._with_typed_numbers - numbers)


def find_drift(
    chunks: Iterable[Chunk],
    drifting: AbstractSet[ParameterKey],
    types: Mapping[ParameterKey, ParameterType],
    faults: FaultCollector,
) -> None:
    """Note the rows where a drifting parameter has a value of the other type."""
    names = {PARAMETER + name for _, name in drifting}
    for chunk in chunks:
        for field in names & chunk.parameters.keys():
            rows = zip(
                chunk.rows.tolist(), chunk.texts["workload"], chunk.parameters[field], strict=True
            )
            name = field.removeprefix(PARAMETER)
            for row, slug, cell in rows:
                key = (Slug(slug or ""), name)
                if key not in drifting or cell is None:
                    continue
                is_word = not is_number(cell, is_typed=chunk.is_typed)
                if is_word is (types[key] is ParameterType.NUMBER):
                    faults.add(
                        row,
                        field,
                        cell,
                        f"Parameter {name!r} of workload {slug!r} is a {types[key]}.",
                        "Send the type it was first used with, or use another parameter name.",
                    )
