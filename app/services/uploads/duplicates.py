"""Tells new runs from duplicates and from conflicts by their external ids and content."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np

from app.domain.identifiers import ProjectId, RunId, Slug, WorkloadId
from app.domain.runs import RunContent, StoredRun
from app.services.uploads.checking import GpuNaming
from app.services.uploads.chunks import BoolArray, Chunk
from app.services.uploads.faults import FaultCollector
from app.services.uploads.flat import FlatValue, flat_content, flat_run
from app.storage.stores import Stores

_REMEDY: Final = "Send a changed run under a new external_id, or delete the stored run first."
_Key = tuple[str, str]
"""A workload and an external id."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of a chunk with the identifiers they get if they are new."""

    chunk: Chunk
    run_ids: Sequence[RunId]
    content: RunContent
    hashes: Sequence[str]

    @property
    def external_ids(self) -> list[str | None] | None:
        """The callers' own ids of the rows, None when no row has one."""
        return self.chunk.texts.get("external_id")

    def take(self, indices: Sequence[int]) -> "Batch":
        """Return some of the rows."""
        good = np.zeros(len(self.chunk), dtype=np.bool_)
        good[list(indices)] = True
        columns: dict[str, Any] = {
            item.name: getattr(self.content, item.name) for item in fields(RunContent)
        }
        content: dict[str, Any] = {
            name: None if cells is None else [cells[index] for index in indices]
            for name, cells in columns.items()
        }
        return Batch(
            self.chunk.keep(good),
            [self.run_ids[index] for index in indices],
            RunContent(**content),
            [self.hashes[index] for index in indices],
        )


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Which rows of a batch are new, and which run each duplicate repeats."""

    is_new: BoolArray
    duplicates: dict[int, RunId] = field(default_factory=dict)


class DuplicateFinder:
    """Compares the rows of one upload with stored runs and with each other.

    Parameters
    ----------
    stores
        The stores of the upload's transaction.
    project_id
        Whose runs they are.
    workload_ids
        The workloads that have runs stored already.
    canonical_gpu_name
        Brings a GPU's name that was stored under older knowledge to its present form.
    conflicts
        Where rows are noted whose external id is taken by other content.
    """

    def __init__(
        self,
        stores: Stores,
        project_id: ProjectId,
        workload_ids: Mapping[Slug, WorkloadId],
        canonical_gpu_name: GpuNaming,
        *,
        conflicts: FaultCollector,
    ) -> None:
        self._stores = stores
        self._project_id = project_id
        self._workload_ids = workload_ids
        self._canonical_gpu_name = canonical_gpu_name
        self._conflicts = conflicts
        self._seen: dict[_Key, tuple[RunId, str]] = {}

    def sort(self, batch: Batch) -> SortedRows:
        """Sort the rows of a batch; rows in conflict are neither new nor duplicates."""
        result = SortedRows(np.ones(len(batch.chunk), dtype=np.bool_))
        names = batch.external_ids
        if names is None:
            return result
        workloads = batch.chunk.texts["workload"]
        stored = self._look_up(workloads, names)
        if self._are_all_new(batch, names, stored):
            return result
        suspects: list[tuple[int, RunId]] = []
        for index, (slug, name) in enumerate(zip(workloads, names, strict=True)):
            if slug is None or name is None:
                continue
            key = (slug, name)
            known = self._seen.get(key) or stored.get(key)
            if known is None:
                self._seen[key] = (batch.run_ids[index], batch.hashes[index])
                continue
            result.is_new[index] = False
            if known[1] == batch.hashes[index]:
                result.duplicates[index] = known[0]
            else:
                suspects.append((index, known[0]))
        self._judge(batch, suspects, result)
        return result

    def _are_all_new(
        self, batch: Batch, names: Sequence[str | None], stored: Mapping[_Key, object]
    ) -> bool:
        """Take a whole batch at once when no row of it can be a duplicate: the common case."""
        keys = [
            (slug, name)
            for slug, name in zip(batch.chunk.texts["workload"], names, strict=True)
            if slug is not None and name is not None
        ]
        is_sure = (
            not stored
            and len(keys) == len(names)
            and len(set(keys)) == len(keys)
            and self._seen.keys().isdisjoint(keys)
        )
        if is_sure:
            self._seen.update(zip(keys, zip(batch.run_ids, batch.hashes, strict=True), strict=True))
        return is_sure

    def _look_up(
        self, workloads: Iterable[str | None], names: Iterable[str | None]
    ) -> dict[_Key, tuple[RunId, str]]:
        by_workload: dict[str, list[str]] = {}
        for slug, name in zip(workloads, names, strict=True):
            if name is not None and slug is not None and slug in self._workload_ids:
                by_workload.setdefault(slug, []).append(name)
        found: dict[_Key, tuple[RunId, str]] = {}
        for slug, wanted in by_workload.items():
            runs = self._stores.runs.find_external(self._workload_ids[Slug(slug)], wanted)
            found.update({(slug, name): _as_pair(run) for name, run in runs.items()})
        return found

    def _judge(
        self, batch: Batch, suspects: Sequence[tuple[int, RunId]], result: SortedRows
    ) -> None:
        """Compare field by field where the hashes differ: they may have been made differently."""
        if not suspects:
            return
        wanted = sorted({run_id for _, run_id in suspects})
        runs = {run.run_id: run for run in self._stores.runs.get_many(self._project_id, wanted)}
        for index, run_id in suspects:
            sent = flat_content(batch.content, index)
            run = runs.get(run_id)
            stored = None if run is None else self._renamed(flat_run(run))
            if stored == sent:
                result.duplicates[index] = run_id
            else:
                self._note(batch, index, sent, stored)

    def _renamed(self, flat: dict[str, FlatValue]) -> dict[str, FlatValue]:
        gpu = flat.get("gpu_type")
        return {**flat, "gpu_type": self._canonical_gpu_name(gpu)} if isinstance(gpu, str) else flat

    def _note(
        self,
        batch: Batch,
        index: int,
        sent: Mapping[str, FlatValue],
        stored: Mapping[str, FlatValue] | None,
    ) -> None:
        row = int(batch.chunk.rows[index])
        name = batch.chunk.texts["external_id"][index]
        if stored is None:
            message = "An earlier row of this upload has this external_id and other content."
            self._conflicts.add(row, "external_id", name, message, _REMEDY)
            return
        for fieldname in sorted({*sent, *stored}):
            ours, theirs = sent.get(fieldname), stored.get(fieldname)
            if ours != theirs:
                message = f"Run {name!r} is stored with {_shown(theirs)}; this row has"
                shown = ours if isinstance(ours, str | float | int) else _shown(ours)
                self._conflicts.add(row, fieldname, shown, f"{message} {_shown(ours)}.", _REMEDY)


def _as_pair(run: StoredRun) -> tuple[RunId, str]:
    return run.run_id, run.content_sha256


def _shown(value: FlatValue | None) -> str:
    if value is None:
        return "nothing"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
