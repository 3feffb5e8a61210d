"""Stores one checked upload in one transaction: types, duplicates, conflicts, new runs."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import numpy as np

from app.domain.errors import RunConflictError, SchemaDriftError
from app.domain.identifiers import ProjectId, RunId, Slug, WorkloadId, new_identifiers
from app.domain.runs import NewRuns, RunStatus
from app.domain.workloads import ParameterDeclaration, ParameterType, Workload
from app.services.uploads.checking import GpuNaming
from app.services.uploads.chunks import Chunk
from app.services.uploads.content import ContentWriter, content_hashes
from app.services.uploads.duplicates import Batch, DuplicateFinder, SortedRows
from app.services.uploads.faults import FaultCollector
from app.services.uploads.parameters import ParameterKey, ParameterUses, find_drift
from app.services.uploads.reading import CheckedUpload
from app.services.uploads.terms import AcceptedRow, UploadOptions
from app.storage.bulk import WriteRuns
from app.storage.stores import Stores

MAX_LISTED_ROWS: Final = 1000
_SortedBatch = tuple[Batch, SortedRows]


@dataclass(slots=True)
class Registered:
    """What became of an upload's good rows; `rows` only where they are few."""

    workloads: Mapping[Slug, Workload]
    new_workloads: int = 0
    created: Counter[Slug] = field(default_factory=Counter)
    statuses: dict[Slug, Counter[RunStatus]] = field(default_factory=dict)
    duplicates: int = 0
    rows: list[AcceptedRow] = field(default_factory=list)

    def count(self, new: Mapping[tuple[str, str], int]) -> None:
        """Count new runs by workload and status."""
        for (slug, status), number in new.items():
            self.created[Slug(slug)] += number
            self.statuses.setdefault(Slug(slug), Counter())[RunStatus(status)] += number


def settle_drift(
    upload: CheckedUpload, types: Mapping[ParameterKey, ParameterType], *, skip_invalid: bool
) -> None:
    """Leave out the rows whose values do not match the type of their parameter.

    Raises
    ------
    SchemaDriftError
        If there are such rows and bad rows are not skipped.
    """
    drifting = upload.uses.drifting(types)
    if not drifting:
        return
    drifts = upload.faults if skip_invalid else FaultCollector()
    find_drift(upload.chunks, drifting, types, drifts)
    if drifts and not skip_invalid:
        raise SchemaDriftError(drifts.named, total=len(drifts.bad_rows))
    upload.drop_bad_rows()


class UploadRegistrar:
    """Registers one upload in the transaction of `stores`.

    Parameters
    ----------
    stores
        The stores of a writing transaction; for a dry run, of a reading one.
    project_id
        Whose runs they are.
    upload
        The upload; rows found bad meanwhile are noted there and left out.
    options
        How to treat bad rows, and whether to write at all.
    canonical_gpu_name
        Returns the canonical name of an unambiguous GPU alias.
    """

    def __init__(
        self,
        stores: Stores,
        project_id: ProjectId,
        upload: CheckedUpload,
        options: UploadOptions,
        *,
        canonical_gpu_name: GpuNaming,
    ) -> None:
        self._stores = stores
        self._project_id = project_id
        self._upload = upload
        self._options = options
        self._canonical_gpu_name = canonical_gpu_name

    def register(self, clock: Callable[[], datetime]) -> Registered:
        """Store the new runs of the upload.

        The clock is read again once the workloads are locked, so that the runs of a workload carry
        instants in the order in which they become visible.

        Raises
        ------
        SchemaDriftError
            If values do not match the type of their parameter and bad rows are not skipped.
        RunConflictError
            If an external id is taken by other content and bad rows are not skipped.
        """
        slugs = {Slug(slug) for chunk in self._upload.chunks for slug in _slugs(chunk)}
        created = set() if self._options.dry_run else self._claim(slugs, clock())
        workloads = self._stores.workloads.find_many(self._project_id, slugs)
        keys = [workload.workload_id for workload in workloads.values()]
        known_counts = {} if self._options.dry_run else self._stores.run_counts.known(keys)
        types = self._upload.uses.resolve(workloads)
        settle_drift(self._upload, types, skip_invalid=self._options.skip_invalid)
        created = self._with_rows(created, workloads)
        registered = Registered(workloads, len(created))
        conflicts = self._upload.faults if self._options.skip_invalid else FaultCollector()
        finder = DuplicateFinder(
            self._stores,
            self._project_id,
            self._with_runs(workloads, created),
            self._canonical_gpu_name,
            conflicts=conflicts,
        )
        finder.look_up(self._upload.chunks)
        self._settle(finder, self._write(finder, types, registered, clock()), registered)
        if conflicts and not self._options.skip_invalid:
            raise RunConflictError(conflicts.named, total=len(conflicts.bad_rows))
        if conflicts:
            self._upload.drop_bad_rows()
        if not self._options.dry_run:
            self._fix_types(self._used(types), registered)
            stored = registered.statuses.items()
            difference = {workloads[slug].workload_id: counts for slug, counts in stored}
            self._stores.run_counts.change(known_counts, difference)
        return registered

    def _claim(self, slugs: set[Slug], now: datetime) -> set[Slug]:
        return self._stores.workloads.claim(self._project_id, slugs, now)

    def _with_rows(self, created: set[Slug], workloads: Mapping[Slug, Workload]) -> set[Slug]:
        """Return the new workloads of which a row is left, and remove the others again."""
        if not (created and self._options.skip_invalid):
            return created
        used = {Slug(slug) for chunk in self._upload.chunks for slug in _slugs(chunk)}
        for slug in created - used:
            self._stores.workloads.delete(workloads[slug].workload_id)
        return created & used

    def _with_runs(
        self, workloads: Mapping[Slug, Workload], created: set[Slug]
    ) -> dict[Slug, WorkloadId]:
        keys = {
            slug: workload.workload_id
            for slug, workload in workloads.items()
            if slug not in created
        }
        with_runs = self._stores.runs.having_any(keys.values())
        return {slug: key for slug, key in keys.items() if key in with_runs}

    def _batches(
        self, types: Mapping[ParameterKey, ParameterType], now: datetime
    ) -> Iterator[Batch]:
        writer = ContentWriter(types)
        total = sum(map(len, self._upload.chunks))
        # Taken after the lock, so that identifiers sort in the order of uploads; never earlier than
        # the rows' own instant, so that a query for runs since then, which goes by id, finds them.
        moment = max(datetime.now(UTC), now)
        run_ids = [RunId(key) for key in new_identifiers("run", total, now=moment)]
        start = 0
        for chunk in self._upload.chunks:
            content = writer.write(chunk)
            end = start + len(chunk)
            yield Batch(chunk, run_ids[start:end], content, content_hashes(content))
            start = end

    def _write(
        self,
        finder: DuplicateFinder,
        types: Mapping[ParameterKey, ParameterType],
        registered: Registered,
        now: datetime,
    ) -> list[_SortedBatch]:
        """Store the new rows; return the batches that are to be reported in detail."""
        detailed = []
        with self._stores.runs.adding() as add:
            for batch in self._batches(types, now):
                result = finder.sort(batch)
                self._add(batch, result, registered, now, add)
                if result.suspects or self._upload.total_rows <= MAX_LISTED_ROWS:
                    detailed.append((batch, result))
                else:
                    registered.duplicates += len(result.duplicates)
        return detailed

    def _settle(
        self, finder: DuplicateFinder, detailed: Sequence[_SortedBatch], registered: Registered
    ) -> None:
        is_listed = self._upload.total_rows <= MAX_LISTED_ROWS
        unstored: set[RunId] = set()
        if is_listed and self._options.dry_run:
            # A row may repeat one of the same upload.
            unstored.update(*(batch.run_ids for batch, _ in detailed))
        for batch, result in detailed:
            finder.judge(batch, result)
            registered.duplicates += len(result.duplicates)
            if is_listed:
                registered.rows += _listed(batch, result, unstored)

    def _add(
        self,
        batch: Batch,
        result: SortedRows,
        registered: Registered,
        now: datetime,
        add: WriteRuns,
    ) -> None:
        workloads = _workloads(batch.chunk)
        new = np.flatnonzero(result.is_new).tolist()
        is_whole = len(new) == len(workloads)
        new_rows = batch if is_whole else batch.take(new)
        slugs = workloads if is_whole else [workloads[index] for index in new]
        registered.count(Counter(zip(slugs, new_rows.content.status, strict=True)))
        if new and not self._options.dry_run:
            keys = {slug: workload.workload_id for slug, workload in registered.workloads.items()}
            add(
                NewRuns(
                    run_id=new_rows.run_ids,
                    workload_id=[keys[Slug(slug)] for slug in slugs],
                    external_id=new_rows.external_ids,
                    content_sha256=new_rows.hashes,
                    content=new_rows.content,
                    created_at=now,
                    exclusions=new_rows.exclusions(self._options.exclusion),
                )
            )

    def _used(
        self, types: Mapping[ParameterKey, ParameterType]
    ) -> Mapping[ParameterKey, ParameterType]:
        """Return the types of the parameters that not only rows use which were left out."""
        if not self._upload.faults:
            return types
        uses = ParameterUses()
        for chunk in self._upload.chunks:
            uses.look_at(chunk)
        return {key: types[key] for key in uses.seen}

    def _fix_types(
        self, types: Mapping[ParameterKey, ParameterType], registered: Registered
    ) -> None:
        first_used: defaultdict[WorkloadId, dict[str, ParameterDeclaration]] = defaultdict(dict)
        for (slug, name), kind in types.items():
            # All rows of a workload may have been left out, or be duplicates.
            workload = registered.workloads[slug] if registered.created[slug] else None
            if workload is not None and name not in workload.declaration.parameters:
                first_used[workload.workload_id][name] = ParameterDeclaration(kind)
        self._stores.workloads.put_parameters(first_used)


def _listed(
    batch: Batch, result: SortedRows, unstored: AbstractSet[RunId]
) -> Iterator[AcceptedRow]:
    names = batch.external_ids or [None] * len(batch.run_ids)
    workloads = _workloads(batch.chunk)
    for index, row in enumerate(batch.chunk.rows.tolist()):
        duplicate_of = result.duplicates.get(index)
        if duplicate_of is None and not result.is_new[index]:
            continue
        run_id = duplicate_of or batch.run_ids[index]
        yield AcceptedRow(
            row=row,
            run_id=None if run_id in unstored else run_id,
            workload=Slug(workloads[index]),
            external_id=names[index],
            is_duplicate=duplicate_of is not None,
        )


def _workloads(chunk: Chunk) -> list[str]:
    """Return the workload of each row of a checked chunk."""
    return [slug for slug in chunk.texts["workload"] if slug is not None]


def _slugs(chunk: Chunk) -> set[str]:
    """Return the workloads of a checked chunk."""
    return {slug for slug in set(chunk.texts["workload"]) if slug is not None}
