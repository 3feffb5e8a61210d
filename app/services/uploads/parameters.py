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
        self._begun_with_typed_number: set[ParameterKey] = set()
        self._with_words: set[ParameterKey] = set()
        self._with_typed_numbers: set[ParameterKey] = set()

    def look_at(self, chunk: Chunk) -> None:
        """Note the parameters of a chunk and the kinds of values that they have."""
        workloads = chunk.texts["workload"]
        for field, cells in chunk.parameters.items():
            name = field.removeprefix(PARAMETER)
            # Each pair once, in the order of the rows: the first use of a parameter decides.
            for slug, cell in dict.fromkeys(zip(workloads, cells, strict=True)):
                if slug is None or cell is None:
                    continue
                key = (Slug(slug), name)
                if not is_number(cell, is_typed=chunk.is_typed):
                    self._with_words.add(key)
                elif chunk.is_typed:
                    self._with_typed_numbers.add(key)
                    if key not in self._seen:
                        self._begun_with_typed_number.add(key)
                self._seen.add(key)

    def resolve(self, workloads: Mapping[Slug, Workload]) -> dict[ParameterKey, ParameterType]:
        """Return each parameter's type: the stored one, else that of its first use.

        A JSON value has a type, and the first one decides. Cells of a CSV file have none: there the
        first use is the whole column, a number if all cells are numbers.
        """
        types = {}
        for slug, name in self._seen:
            workload = workloads.get(slug)
            declared = workload.declaration.parameters.get(name) if workload else None
            types[slug, name] = declared.type if declared else self._first_use(slug, name)
        return types

    def _first_use(self, slug: Slug, name: str) -> ParameterType:
        has_words = (slug, name) in self._with_words
        begun_with_word = has_words and (slug, name) not in self._begun_with_typed_number
        if name in _ALWAYS_CATEGORY or begun_with_word:
            return ParameterType.CATEGORY
        return ParameterType.NUMBER

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
