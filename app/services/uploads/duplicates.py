"""Tells new runs from duplicates and conflicts by their external ids and content."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Any, Final

import numpy as np

from app.domain.identifiers import ProjectId, RunId, Slug, WorkloadId
from app.domain.runs import RunContent, StoredRun
from app.services.uploads.checking import GpuNaming
from app.services.uploads.chunks import BoolArray, Chunk
from app.services.uploads.faults import FaultCollector
from app.services.uploads.fields import EXCLUSION, LABEL
from app.services.uploads.flat import FlatValue, flat_content, flat_run
from app.storage.stores import Stores

_REMEDY: Final = "Send a changed run under a new external_id, or delete the stored run first."
_RELABEL: Final = (
    "Change the stored run's labels: PATCH /v1/runs/%s. This row is then a duplicate of it."
)


@dataclass(frozen=True, slots=True)
class Batch:
    """The rows of a chunk with the identifiers that they get if they are new."""

    chunk: Chunk
    run_ids: Sequence[RunId]
    content: RunContent
    hashes: Sequence[str]

    @property
    def external_ids(self) -> list[str | None] | None:
        """The callers' own ids of the rows, None if no row has one."""
        return self.chunk.texts.get("external_id")

    def exclusions(self, default: str | None) -> Sequence[str | None] | None:
        """Return why rows are kept out of fits, None if none is; `default` applies to all."""
        reasons = self.chunk.texts.get(EXCLUSION)
        if reasons is None:
            return None if default is None else [default] * len(self.chunk)
        return [reason or default for reason in reasons]

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
    """The new rows of a batch, and the run that each duplicate repeats.

    Suspects share a run's external id but have another hash; None stands for a run of the upload.
    """

    is_new: BoolArray
    duplicates: dict[int, RunId] = field(default_factory=dict)
    suspects: list[tuple[int, RunId | None]] = field(default_factory=list)


class DuplicateFinder:
    """Compares the rows of one upload with stored runs and with one another.

    Parameters
    ----------
    stores
        The stores of the upload's transaction.
    project_id
        Whose runs they are.
    workload_ids
        The workloads that already have stored runs.
    canonical_gpu_name
        Converts a GPU's name stored under an older catalogue to its present form.
    conflicts
        Collects the rows whose external id is taken by other content.
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
        self._stored: dict[str, dict[str, StoredRun]] = {}
        self._seen: dict[str, dict[str, int]] = {}
        self._run_ids: list[RunId] = []
        self._hashes: list[str] = []

    def look_up(self, chunks: Iterable[Chunk]) -> None:
        """Read which external ids are stored, before anything of the upload is."""
        slugs = {key: slug for slug, key in self._workload_ids.items()}
        for chunk in chunks if slugs else ():
            names = chunk.texts.get("external_id", [])
            wanted = [
                (self._workload_ids[Slug(slug)], name)
                for slug, name in zip(chunk.texts["workload"], names, strict=bool(names))
                if name is not None and slug is not None and slug in self._workload_ids
            ]
            found = self._stores.runs.find_external(wanted) if wanted else {}
            for key, runs in found.items():
                self._stored.setdefault(slugs[key], {}).update(runs)

    def sort(self, batch: Batch) -> SortedRows:
        """Sort the rows of a batch by what `look_up` found, without a query."""
        result = SortedRows(np.ones(len(batch.chunk), dtype=np.bool_))
        names, workloads = batch.external_ids, batch.chunk.texts["workload"]
        if names is None:
            return result
        start = len(self._run_ids)
        self._run_ids += batch.run_ids
        self._hashes += batch.hashes
        if self._are_all_new(workloads, names, start):
            return result
        for index, (slug, name) in enumerate(zip(workloads, names, strict=True)):
            if slug is None or name is None:
                continue
            stored = self._stored.get(slug, {}).get(name)
            seen = self._seen.setdefault(slug, {}).setdefault(name, start + index)
            if stored is None and seen == start + index:
                continue
            earlier = stored or StoredRun(self._run_ids[seen], self._hashes[seen])
            result.is_new[index] = False
            if earlier.content_sha256 == batch.hashes[index]:
                result.duplicates[index] = earlier.run_id
            else:
                result.suspects.append((index, None if stored is None else earlier.run_id))
        return result

    def _are_all_new(
        self, workloads: Sequence[str | None], names: Sequence[str | None], start: int
    ) -> bool:
        """Accept a whole batch at once if no row of it can be a duplicate: the common case.

        No object is created per row that the garbage collector would have to track.
        """
        slug = workloads[0]
        if slug is None or None in names or workloads.count(slug) != len(workloads):
            return False
        first_uses = dict(
            zip([name for name in names if name is not None], count(start), strict=False)
        )
        seen = self._seen.setdefault(slug, {})
        is_sure = (
            len(first_uses) == len(names)
            and seen.keys().isdisjoint(first_uses)
            and self._stored.get(slug, {}).keys().isdisjoint(first_uses)
        )
        if is_sure:
            seen.update(first_uses)
        return is_sure

    def judge(self, batch: Batch, result: SortedRows) -> None:
        """Compare suspects field by field: their hashes may have been computed differently.

        Each suspect becomes a duplicate or a conflict.
        """
        if not result.suspects:
            return
        wanted = sorted({run_id for _, run_id in result.suspects if run_id is not None})
        runs = {run.run_id: run for run in self._stores.runs.get_many(self._project_id, wanted)}
        for index, run_id in result.suspects:
            sent = flat_content(batch.content, index)
            run = None if run_id is None else runs.get(run_id)
            stored = None if run is None else self._renamed(flat_run(run))
            if run_id is not None and stored == sent:
                result.duplicates[index] = run_id
            else:
                self._note(batch, index, sent, stored, run_id)

    def _renamed(self, flat: dict[str, FlatValue]) -> dict[str, FlatValue]:
        gpu = flat.get("gpu_type")
        return {**flat, "gpu_type": self._canonical_gpu_name(gpu)} if isinstance(gpu, str) else flat

    def _note(
        self,
        batch: Batch,
        index: int,
        sent: Mapping[str, FlatValue],
        stored: Mapping[str, FlatValue] | None,
        run_id: RunId | None,
    ) -> None:
        row = int(batch.chunk.rows[index])
        name = batch.chunk.texts["external_id"][index]
        if stored is None:
            message = "An earlier row of this upload has this external_id but other content."
            self._conflicts.add(row, "external_id", name, message, _REMEDY)
            return
        differing = sorted(
            field for field in {*sent, *stored} if sent.get(field) != stored.get(field)
        )
        only_labels = all(field.startswith(LABEL) for field in differing)
        remedy = _RELABEL % run_id if only_labels else _REMEDY
        for field_name in differing:
            sent_value, stored_value = sent.get(field_name), stored.get(field_name)
            message = f"Run {name!r} is stored with {_shown(stored_value)}; this row has"
            shown = (
                sent_value
                if isinstance(sent_value, str | float | int | None)
                else _shown(sent_value)
            )
            self._conflicts.add(row, field_name, shown, f"{message} {_shown(sent_value)}.", remedy)


def _shown(value: FlatValue | None) -> str:
    if value is None:
        return "nothing"
    return f"{value:.15g}" if isinstance(value, float) else str(value)
