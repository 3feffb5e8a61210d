"""The canonical content of a row: what is stored, and the hash that identifies equal runs."""

from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from itertools import repeat
from math import isnan
from typing import Final, TypeVar

import numpy as np
import orjson

from app.domain.flat_fields import PARAMETER
from app.domain.runs import RunContent, RunStatus
from app.domain.workloads import ParameterType
from app.services.uploads.chunks import Chunk, FloatArray
from app.services.uploads.fields import LABEL, PHASE, RESOURCE
from app.services.uploads.parameters import ParameterKey

_MAX_REMEMBERED: Final = 20_000
_MIN_PLAIN, _MAX_PLAIN = 1e-4, 1e15
Cells = TypeVar("Cells")


def number_text(value: float) -> str:
    """Return a number's shortest JSON form, without a redundant fraction.

    Examples
    --------
    >>> number_text(16.0), number_text(0.1)
    ('16', '0.1')
    """
    return repr(value).removesuffix(".0")


def _number_texts(values: FloatArray) -> list[str]:
    """Return `number_text` of each number; "" for NaN.

    Examples
    --------
    >>> _number_texts(np.array([16.0, 0.1, np.nan, 1e-7]))
    ['16', '0.1', '', '1e-07']
    """
    sizes = np.abs(values)
    # Within these bounds JSON and Python write numbers in the same way.
    if ((sizes >= _MIN_PLAIN) & (sizes < _MAX_PLAIN)).all():
        texts = orjson.dumps(values.tolist())[1:-1].decode() + ","
        return texts.replace(".0,", ",")[:-1].split(",")
    return ["" if isnan(value) else number_text(value) for value in values.tolist()]


def _key_prefix(name: str) -> str:
    return orjson.dumps(name).decode() + ":"


class _Members(dict[str | float | None, str]):
    """The JSON member for each distinct value of one parameter; '' for absence."""

    def __init__(self, name: str, kind: ParameterType) -> None:
        super().__init__()
        self._head = _key_prefix(name)
        self._is_number = kind is ParameterType.NUMBER

    def __missing__(self, value: str | float | None) -> str:
        if value is None:
            member = ""
        elif self._is_number:
            member = self._head + number_text(float(value))
        else:
            member = self._head + orjson.dumps(value).decode()
        if len(self) < _MAX_REMEMBERED:
            self[value] = member
        return member


class ContentWriter:
    """Converts checked chunks into the form in which runs are stored and compared.

    Parameters
    ----------
    types
        The type of each parameter that the upload uses.
    """

    def __init__(self, types: Mapping[ParameterKey, ParameterType]) -> None:
        self._parameter_members: dict[str, dict[str | None, _Members]] = {}
        self._label_members: dict[str, _Members] = {}
        for (slug, name), kind in types.items():
            by_workload = self._parameter_members.setdefault(PARAMETER + name, {})
            by_workload[slug] = _Members(name, kind)

    def write(self, chunk: Chunk) -> RunContent:
        """Return the content of a chunk's runs."""
        statuses = chunk.texts.get("status") or [None] * len(chunk)
        succeeded = RunStatus.SUCCEEDED.value
        texts, numbers = chunk.texts, chunk.numbers
        return RunContent(
            status=[status or succeeded for status in statuses],
            duration_seconds=numbers["duration_seconds"].tolist(),
            workers=[count or 1 for count in _integers(numbers.get("workers")) or [1] * len(chunk)],
            nodes=_integers(numbers.get("nodes")),
            progress=_floats(numbers.get("progress")),
            dataset_size=_floats(numbers.get("dataset_size")),
            batch_size=_floats(numbers.get("batch_size")),
            epochs=_floats(numbers.get("epochs")),
            gpu_type=_none_if_empty(texts.get("gpu_type")),
            instance_type=_none_if_empty(texts.get("instance_type")),
            provider=_none_if_empty(texts.get("provider")),
            region=_none_if_empty(texts.get("region")),
            purchase=_none_if_empty(texts.get("purchase")),
            started_at=_none_if_empty(chunk.instants.get("started_at")),
            cost_amount=_none_if_empty(chunk.money.get("cost_amount")),
            cost_currency=_none_if_empty(texts.get("cost_currency")),
            forecast_id=_none_if_empty(texts.get("forecast_id")),
            parameters=self._parameters(chunk),
            phases=self._number_family(chunk, PHASE),
            resources=self._number_family(chunk, RESOURCE),
            labels=self._labels(chunk),
        )

    def _parameters(self, chunk: Chunk) -> list[str | None] | None:
        workloads = chunk.texts["workload"]
        columns = []
        for field in sorted(chunk.parameters):
            by_workload = self._parameter_members.get(field, {})
            cells = chunk.parameters[field]
            if len(by_workload) == 1:
                [members] = by_workload.values()
                columns.append([members[cell] for cell in cells])
                continue
            pairs = zip(workloads, cells, strict=True)
            columns.append(
                ["" if cell is None else by_workload[slug][cell] for slug, cell in pairs]
            )
        return _objects(columns)

    def _number_family(self, chunk: Chunk, family: str) -> list[str | None] | None:
        columns = []
        for field in sorted(name for name in chunk.numbers if name.startswith(family)):
            head, texts = (
                _key_prefix(field.removeprefix(family)),
                _number_texts(chunk.numbers[field]),
            )
            if any(texts):
                columns.append([head + text if text else "" for text in texts])
        return _objects(columns)

    def _labels(self, chunk: Chunk) -> list[str | None] | None:
        columns = []
        for field in sorted(name for name in chunk.texts if name.startswith(LABEL)):
            members = self._label_members.setdefault(
                field, _Members(field.removeprefix(LABEL), ParameterType.CATEGORY)
            )
            columns.append([members[value] for value in chunk.texts[field]])
        return _objects(columns)


def content_hashes(content: RunContent) -> list[str]:
    """Return the SHA-256 of each run's content in canonical JSON."""
    columns = [getattr(content, field.name) for field in fields(RunContent)]
    rows = zip(*(repeat(None) if cells is None else cells for cells in columns))  # noqa: B905 - repeat() has no end
    return [sha256(orjson.dumps(row, default=str)).hexdigest() for row in rows]


def _none_if_empty(column: list[Cells] | None) -> list[Cells] | None:
    """Return a column, None when it is empty throughout."""
    return column if column is not None and any(cell is not None for cell in column) else None


def _floats(values: FloatArray | None) -> list[float | None] | None:
    if values is None:
        return None
    missing = np.isnan(values)
    if missing.all():
        return None
    listed: list[float | None] = values.tolist()
    if missing.any():
        for index in np.flatnonzero(missing).tolist():
            listed[index] = None
    return listed


def _integers(values: FloatArray | None) -> list[int | None] | None:
    if values is not None and not np.isnan(values).any():
        whole: list[int | None] = values.astype(np.int64).tolist()
        return whole
    listed = _floats(values)
    return None if listed is None else [None if value is None else int(value) for value in listed]


def _objects(columns: list[list[str]]) -> list[str | None] | None:
    if not columns:
        return None
    if not any("" in column for column in columns):
        return [f"{{{members}}}" for members in map(",".join, zip(*columns, strict=True))]
    rows = (",".join(filter(None, members)) for members in zip(*columns, strict=True))
    return _none_if_empty([f"{{{members}}}" if members else None for members in rows])
