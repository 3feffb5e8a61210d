"""Whether a parameter is a number or a category: fixed by declaration or by first use."""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from app.domain.flat_fields import PARAMETER
from app.domain.identifiers import Slug
from app.domain.spelling import folded
from app.domain.workloads import ParameterType, Workload
from app.services.uploads.chunks import Chunk
from app.services.uploads.faults import FaultCollector
from app.services.uploads.numbers import has_unit, is_miswritten, is_number

ParameterKey = tuple[Slug, str]
"""A workload and the name of one of its parameters."""
_ALWAYS_CATEGORY: Final = frozenset({"framework"})
_ABSENCE: Final = frozenset({"na", "n/a", "#n/a", "nan", "null", "-", "--", "?"})
"""How programs write a missing number; "None" is not among them, as it may be a setting."""
_MAX_COMPARED: Final = 1000
_OTHER_TYPE: Final = "Send the type it was first used with, or use another parameter name."
_NO_VALUE: Final = (
    "Leave it out (in CSV, leave the cell empty) where there is no value. Where it is a value of"
    " its own,"
    " declare the parameter as a category before its first use: PUT /v1/workloads/{workload}."
)


class ParameterUses:
    """How the rows of one upload use the parameters of their workloads."""

    def __init__(self) -> None:
        self.seen: set[ParameterKey] = set()
        """The parameters that a row uses."""
        self._begun_with_typed_number: set[ParameterKey] = set()
        self._with_words: set[ParameterKey] = set()
        self._with_levels: set[ParameterKey] = set()
        self._with_other_levels: set[ParameterKey] = set()
        self._with_numbers: set[ParameterKey] = set()
        self._with_typed_numbers: set[ParameterKey] = set()
        self._spellings: dict[ParameterKey, dict[str, str]] = {}
        self.respelled: set[ParameterKey] = set()
        """The parameters whose words differ only by case or by how accents are encoded."""

    def look_at(self, chunk: Chunk) -> None:
        """Note the parameters of a chunk and the kinds of their values."""
        workloads = chunk.texts["workload"]
        for field, cells in chunk.parameters.items():
            name = field.removeprefix(PARAMETER)
            # Each pair once, in row order: the first use of a parameter decides.
            for slug, cell in dict.fromkeys(zip(workloads, cells, strict=True)):
                if slug is None or cell is None:
                    continue
                key = (Slug(slug), name)
                is_word = not is_number(cell, is_typed=chunk.is_typed)
                (self._with_words if is_word else self._with_numbers).add(key)
                if is_word and not says_absence(cell):
                    self._with_levels.add(key)
                    if not (is_miswritten(str(cell)) or has_unit(str(cell))):
                        self._with_other_levels.add(key)
                    self._compare(key, str(cell))
                elif chunk.is_typed and not is_word:
                    self._with_typed_numbers.add(key)
                    if key not in self.seen:
                        self._begun_with_typed_number.add(key)
                self.seen.add(key)

    def resolve(self, workloads: Mapping[Slug, Workload]) -> dict[ParameterKey, ParameterType]:
        """Return each parameter's type: the stored one, else that of its first use.

        A JSON value has a type, and the first one decides. Cells of a CSV file have none, so the
        first use is the whole column: a number if all cells are numbers. Words for a missing value
        (`NA`) do not make numbers a category; their rows drift.
        """
        types = {}
        for slug, name in self.seen:
            workload = workloads.get(slug)
            declared = workload.declaration.parameters.get(name) if workload else None
            types[slug, name] = declared.type if declared else self._first_use(slug, name)
        return types

    def _first_use(self, slug: Slug, name: str) -> ParameterType:
        key = (slug, name)
        has_words = key in self._with_levels or key in self._with_words - self._with_numbers
        begins_with_word = has_words and key not in self._begun_with_typed_number
        if name in _ALWAYS_CATEGORY or begins_with_word:
            return ParameterType.CATEGORY
        return ParameterType.NUMBER

    def mixed(self, workloads: Mapping[Slug, Workload]) -> set[ParameterKey]:
        """Return the parameters that are categories only because words stand among numbers.

        Parameters that were declared or used before are not included.
        """
        mixed_keys = self._with_levels & self._with_numbers - self._with_typed_numbers
        return _newly_used(mixed_keys, workloads)

    def miswritten(self, workloads: Mapping[Slug, Workload]) -> set[ParameterKey]:
        """Return the parameters that are categories only because of how their numbers are written.

        Parameters that were declared or used before are not included.
        """
        miswritten_keys = self._with_levels - self._with_other_levels - self._with_numbers
        return _newly_used(miswritten_keys, workloads)

    def _compare(self, key: ParameterKey, word: str) -> None:
        spellings = self._spellings.setdefault(key, {})
        if len(spellings) < _MAX_COMPARED and spellings.setdefault(folded(word), word) != word:
            self.respelled.add(key)

    def drifting(self, types: Mapping[ParameterKey, ParameterType]) -> set[ParameterKey]:
        """Return the parameters that have values of the type that they are not.

        A CSV cell has no type of its own: "16" can be a category's value.
        """
        numbers = {key for key, kind in types.items() if kind is ParameterType.NUMBER}
        return (self._with_words & numbers) | (self._with_typed_numbers - numbers)


def _newly_used(
    keys: AbstractSet[ParameterKey], workloads: Mapping[Slug, Workload]
) -> set[ParameterKey]:
    return {
        (slug, name)
        for slug, name in keys
        if name not in _ALWAYS_CATEGORY
        and (slug not in workloads or name not in workloads[slug].declaration.parameters)
    }


def find_drift(
    chunks: Iterable[Chunk],
    drifting: AbstractSet[ParameterKey],
    types: Mapping[ParameterKey, ParameterType],
    faults: FaultCollector,
) -> None:
    """Note the rows where a drifting parameter has a value of the wrong type."""
    names = {PARAMETER + name for _, name in drifting}
    for chunk in chunks:
        for field, cells in chunk.parameters.items():
            if field not in names:
                continue
            rows = zip(chunk.rows.tolist(), chunk.texts["workload"], cells, strict=True)
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
                        _NO_VALUE if says_absence(cell) else _OTHER_TYPE,
                    )


def says_absence(cell: str | float) -> bool:
    """Whether a word stands for a missing number.

    Examples
    --------
    >>> says_absence("N/A"), says_absence("None"), says_absence(7)
    (True, False, False)
    """
    return isinstance(cell, str) and cell.strip().casefold() in _ABSENCE
