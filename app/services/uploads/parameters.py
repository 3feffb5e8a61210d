"""Whether a parameter is a number or a category: fixed by its declaration or its first use."""

from collections.abc import Iterable, Mapping, Sequence
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
        self._is_numeric: dict[ParameterKey, bool] = {}

    def look_at(self, chunk: Chunk) -> None:
        """Note the parameters of a chunk and which of them have values that are no numbers."""
        workloads = chunk.texts["workload"]
        for field, cells in chunk.parameters.items():
            name = field.removeprefix(PARAMETER)
            words = {
                cell
                for cell in set(cells)
                if cell is not None and not is_number(cell, is_typed=chunk.is_typed)
            }
            pairs = set(zip(workloads, cells, strict=True))
            for workload, cell in pairs:
                if workload is not None and cell is not None:
                    key = (Slug(workload), name)
                    numeric = cell not in words and name not in _ALWAYS_CATEGORY
                    self._is_numeric[key] = self._is_numeric.get(key, True) and numeric

    def resolve(self, workloads: Mapping[Slug, Workload]) -> dict[ParameterKey, ParameterType]:
        """Return each parameter's type: the stored one, else a number if all values are numbers."""
        types = {}
        for (slug, name), numeric in self._is_numeric.items():
            workload = workloads.get(slug)
            declared = workload.declaration.parameters.get(name) if workload else None
            first_use = ParameterType.NUMBER if numeric else ParameterType.CATEGORY
            types[slug, name] = declared.type if declared else first_use
        return types


def find_drift(
    chunks: Iterable[Chunk], types: Mapping[ParameterKey, ParameterType], faults: FaultCollector
) -> None:
    """Note the rows whose values do not have the type of their parameter."""
    for chunk in chunks:
        for field, cells in chunk.parameters.items():
            _find_drift_in(chunk, field, cells, types, faults)


def _find_drift_in(
    chunk: Chunk,
    field: str,
    cells: Sequence[str | float | None],
    types: Mapping[ParameterKey, ParameterType],
    faults: FaultCollector,
) -> None:
    name = field.removeprefix(PARAMETER)
    numeric = {
        cell: is_number(cell, is_typed=chunk.is_typed) for cell in set(cells) if cell is not None
    }
    if not chunk.is_typed and all(numeric.values()):
        return
    rows = zip(chunk.rows.tolist(), chunk.texts["workload"], cells, strict=True)
    for row, workload, cell in rows:
        if workload is None or cell is None:
            continue
        wanted = types[Slug(workload), name]
        # A CSV cell has no type of its own: "16" can be a category's value.
        is_drift = (
            not numeric[cell]
            if wanted is ParameterType.NUMBER
            else (chunk.is_typed and numeric[cell])
        )
        if is_drift:
            faults.add(
                row,
                field,
                cell,
                f"Parameter {name!r} of workload {workload!r} is a {wanted}.",
                "Send the type it was first used with, or use another parameter name.",
            )
