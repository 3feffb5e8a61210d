"""Keeps published regressors in memory and knows which version answers."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from app.domain.availability_errors import StorageUnavailableError
from app.domain.errors import (
    DomainError,
    NoRegressorError,
    NotFoundError,
    RegressorUnavailableError,
    UnknownWorkloadError,
)
from app.domain.identifiers import ProjectId, RegressorKey, Slug, WorkloadId
from app.domain.instants import elapsed
from app.domain.regressors import ArtifactRemovedError
from app.pricing.energy import MeasuredPowers
from app.services.context import ServiceContext
from app.services.recently_used import CacheFigures
from app.services.refused_regressors import refused_regressors
from app.services.renewals import Renewals
from app.services.served_regressors import (
    ServedRegressor,
    in_currency,
    load_unpublished,
    load_version,
)
from app.storage.stores import Stores
from models import FORMAT_VERSION

_CANNOT_ANSWER: Final = (ArtifactRemovedError, NotFoundError, RegressorUnavailableError)
_BYTES_BESIDE: Final = 50_000
"""Added to each artefact's bytes: what a regressor takes in memory is up to twice the sum."""

_MANY_WORKLOADS: Final = 16
"""From so many on, one query asks which of their versions answer."""

_WORKLOADS_A_READ: Final = 500
"""So few that a database that answers does so in less time than one waits for a silent one."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(slots=True)
class _Pointer:
    """The version that answers for a workload, and when it was read."""

    workload_id: WorkloadId
    version: int
    currency: str
    read_at: datetime
    is_reading: bool = False
    is_stale: bool = False


_Key = tuple[ProjectId, Slug]


class RegressorCache:
    """The regressors of one process; the least recently used are dropped first.

    At most `regressor_cache_size` are kept, which weigh at most `regressor_cache_bytes` in total;
    the last one used is kept whatever its size. No more published versions are known.

    Parameters
    ----------
    context
        The surroundings of the service.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._context = context
        self._fresh_for = timedelta(seconds=context.settings.regressor_refresh_s)
        self._renew_after = self._fresh_for / 2
        self._renewals = Renewals(patience_s=context.settings.database_patience_s)
        self._pointers: dict[_Key, _Pointer] = {}
        self._regressors: OrderedDict[tuple[WorkloadId, int], ServedRegressor] = OrderedDict()
        self._n_bytes = 0
        self._lock = threading.Lock()
        self.figures = CacheFigures()

    def __len__(self) -> int:
        return len(self._regressors)

    def in_memory(
        self,
        project_id: ProjectId,
        slug: Slug,
        version: int | None,
        now: datetime,
        asked_at: datetime | None = None,
    ) -> ServedRegressor | None:
        """Return the regressor if it is in memory and known to answer; never queries the database.

        A version named in the request stays right as long as its workload is known. What was known
        `asked_at` suffices, or since; None: now.
        """
        pointer = self._pointers.get((project_id, slug))
        if pointer is None:
            return None
        age = elapsed(pointer.read_at, now)
        if asked_at is not None and pointer.read_at <= now:
            age = max(asked_at - pointer.read_at, timedelta())
        if age > self._fresh_for and not pointer.is_reading:
            return None
        if age > self._renew_after:
            key = (project_id, slug)
            self._renewals.renew((*key, None), lambda: self._read(key, None))
        served = self._held(pointer, version)
        self.figures.hits += served is not None
        return served

    def get(
        self,
        project_id: ProjectId,
        slug: Slug,
        version: int | None = None,
        asked_at: datetime | None = None,
        power: MeasuredPowers | None = None,
    ) -> ServedRegressor:
        """Return the published regressor, or the named version, loading it if needed.

        What was known `asked_at` suffices; None: now. `power` is what the workload's runs measured,
        where it was read already.

        Raises
        ------
        UnknownWorkloadError
            If the project has no such workload.
        NoRegressorError
            If the workload has no published regressor.
        NotFoundError
            If the workload has no such version.
        RegressorUnavailableError
            If the stored regressor cannot be used.
        StorageUnavailableError
            If the database does not answer and the regressor is not in memory; one in memory is
            returned as stale.
        """
        served = self.in_memory(project_id, slug, version, self._context.now(), asked_at)
        if served is not None:
            return served
        key = (project_id, slug)
        pointer = self._pointers.get(key)
        cached = None if pointer is None else self._held(pointer, version)
        try:
            if pointer is None or cached is None:
                return self._read(key, version, power)
            return self._renewed(key, version, pointer)
        except StorageUnavailableError:
            if pointer is None or cached is None:
                raise
            pointer.read_at, pointer.is_stale = self._context.now(), True
            self.figures.hits += 1
            return replace(cached, is_stale=True)
        except (UnknownWorkloadError, NoRegressorError):
            with self._lock:
                self._pointers.pop(key, None)
            raise

    def prepare(
        self, project_id: ProjectId, keys: Collection[RegressorKey]
    ) -> "PreparedRegressors":
        """Ask at once which versions answer many workloads.

        `get` asks for each workload by itself, which suffices for few.
        """
        now = self._context.now()
        prepared = PreparedRegressors(self, project_id, now)
        old = [key for key in keys if not self._is_new(project_id, key[0], now)]
        if len(old) >= _MANY_WORKLOADS:
            unread = [key for key in old if not self.holds(project_id, *key)]
            in_memory = {slug for slug, _ in old}.difference(slug for slug, _ in unread)
            self._renew_many(project_id, sorted(in_memory), now)
            try:
                self._read_unread(prepared, unread)
            except StorageUnavailableError as error:
                prepared.refusals.update(dict.fromkeys(unread, error.with_traceback(None)))
        return prepared

    def _is_new(self, project_id: ProjectId, slug: Slug, now: datetime) -> bool:
        pointer = self._pointers.get((project_id, slug))
        return pointer is not None and elapsed(pointer.read_at, now) <= self._renew_after

    def holds(self, project_id: ProjectId, slug: Slug, version: int | None) -> bool:
        """Return whether a regressor is in memory, whether or not it still answers."""
        pointer = self._pointers.get((project_id, slug))
        return pointer is not None and self._held(pointer, version) is not None

    def _renew_many(self, project_id: ProjectId, slugs: Sequence[Slug], now: datetime) -> None:
        """Read which versions answer; while the database is away, those known stay in use."""
        for begin in range(0, len(slugs), _WORKLOADS_A_READ):
            part = slugs[begin : begin + _WORKLOADS_A_READ]
            try:
                self._renewals.wait_for(object(), partial(self._read_many, project_id, part, now))
            except StorageUnavailableError:
                for slug in slugs[begin:]:
                    pointer = self._pointers.get((project_id, slug))
                    if pointer is not None:
                        pointer.read_at, pointer.is_stale = now, True
                return

    def _read_unread(self, prepared: "PreparedRegressors", keys: Sequence[RegressorKey]) -> None:
        """Read which versions answer for workloads, and the refusals of those without."""
        if not keys:
            return
        project_id, slugs = prepared.project_id, list({slug for slug, _ in keys})
        prepared.pointers.update(self._read_many(project_id, slugs, prepared.asked_at))
        others = [key for key in keys if key[0] not in prepared.pointers]
        if others:
            with self._context.database.reading() as stores:
                prepared.refusals.update(refused_regressors(stores, project_id, others))

    def _read_many(
        self, project_id: ProjectId, slugs: Collection[Slug], now: datetime
    ) -> Mapping[Slug, _Pointer]:
        """Read which versions answer; return those of the workloads for which one does."""
        with self._context.database.reading() as stores:
            answering = stores.regressors.answering(project_id, slugs, FORMAT_VERSION)
        pointers = {slug: _Pointer(*found, read_at=now) for slug, found in answering.items()}
        with self._lock:
            for slug in answering.keys() ^ slugs:
                self._pointers.pop((project_id, slug), None)
            for slug, pointer in pointers.items():
                self._pointers[project_id, slug] = pointer
        return pointers

    def find(
        self,
        project_id: ProjectId,
        slug: Slug,
        version: int,
        power: MeasuredPowers | None = None,
        *,
        stores: Stores | None = None,
    ) -> ServedRegressor | None:
        """Return a version as `get` does, None where it can no longer answer.

        If a caller in a transaction passes its `stores`, what is not in memory is read with them:
        they may hold the process's last connection.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer, so that this is unknown.
        """
        try:
            if stores is None:
                return self.get(project_id, slug, version, power=power)
            held = self.in_memory(project_id, slug, version, self._context.now())
            return held or self._read_with(stores, (project_id, slug), version, power)
        except (*_CANNOT_ANSWER, NoRegressorError):
            return None

    def _renewed(self, key: _Key, version: int | None, pointer: _Pointer) -> ServedRegressor:
        """Return the regressor held after a refresh; raises if the database is silent."""
        pointer.is_reading = True
        try:
            # The published version may be damaged, which is no matter of the one that was named.
            self._renewals.wait_for((*key, version), lambda: self._read(key, version))
        finally:
            pointer.is_reading = False
        served = self._held(self._pointers.get(key, pointer), version)
        self.figures.hits += served is not None
        return served or self._read(key, version)

    def _held(self, pointer: _Pointer, version: int | None) -> ServedRegressor | None:
        key = (pointer.workload_id, version or pointer.version)
        with self._lock:
            served = self._regressors.get(key)
            if served is None:
                return None
            served = self._regressors[key] = in_currency(served, pointer.currency)
            self._regressors.move_to_end(key)
        return replace(served, is_stale=True) if pointer.is_stale else served

    def _read(
        self, key: _Key, version: int | None, power: MeasuredPowers | None = None
    ) -> ServedRegressor:
        with self._context.database.reading() as stores:
            return self._read_with(stores, key, version, power)

    def _read_with(
        self, stores: Stores, key: _Key, version: int | None, power: MeasuredPowers | None
    ) -> ServedRegressor:
        (project_id, slug), now = key, self._context.now()
        answering = stores.regressors.answering(project_id, [slug], FORMAT_VERSION)
        if slug not in answering:
            return load_unpublished(stores, project_id, slug, version)
        pointer = _Pointer(*answering[slug], read_at=now)
        return self._load(stores, key, version, pointer, power)

    def _load(
        self,
        stores: Stores,
        key: _Key,
        version: int | None,
        pointer: _Pointer,
        power: MeasuredPowers | None = None,
    ) -> ServedRegressor:
        served = self._held(pointer, version)
        if served is None:
            self.figures.misses += 1
            wanted = version or pointer.version
            loaded = load_version(stores, key[1], pointer.workload_id, wanted, power)
            served = in_currency(loaded, pointer.currency)
        with self._lock:
            self._pointers[key] = pointer
            self._keep(served)
            self._forget()
        return served

    def load_known(
        self, project_id: ProjectId, slug: Slug, version: int | None, pointer: _Pointer
    ) -> ServedRegressor | None:
        """Return a regressor not in memory whose answering version was just read.

        None if it cannot answer any more.

        Raises
        ------
        StorageUnavailableError
            If the database does not answer.
        """
        try:
            with self._context.database.reading() as stores:
                return self._load(stores, (project_id, slug), version, pointer)
        except _CANNOT_ANSWER:
            return None

    def _keep(self, served: ServedRegressor) -> None:
        key = served.workload_id, served.version
        before = self._regressors.pop(key, None)
        self._regressors[key] = served
        self._n_bytes += _weight_of(served) - (0 if before is None else _weight_of(before))

    def _forget(self) -> None:
        """Drop what exceeds the limits."""
        settings = self._context.settings
        while len(self._regressors) > 1 and (
            len(self._regressors) > settings.regressor_cache_size
            or self._n_bytes > settings.regressor_cache_bytes
        ):
            self._n_bytes -= _weight_of(self._regressors.popitem(last=False)[1])
        if len(self._pointers) > settings.regressor_cache_size:
            held = {workload_id for workload_id, _ in self._regressors}
            self._pointers = {
                key: pointer
                for key, pointer in self._pointers.items()
                if pointer.workload_id in held
            }

    def expire(self, project_id: ProjectId, slug: Slug, version: int | None) -> None:
        """Let the next question ask what answers, unless `version` is known to."""
        pointer = self._pointers.get((project_id, slug))
        if pointer is not None and pointer.version != version:
            pointer.read_at = _LONG_AGO

    def close(self) -> None:
        """Stop reading in the background."""
        self._renewals.close()


@dataclass(frozen=True, slots=True)
class PreparedRegressors:
    """The regressors of one question, each loaded when it is asked for.

    Which of them answer was known `asked_at`; `pointers` are the versions of those that were not in
    memory, `refusals` those of the workloads without a regressor, as far as known.
    """

    cache: RegressorCache
    project_id: ProjectId
    asked_at: datetime
    pointers: dict[Slug, _Pointer] = field(default_factory=dict)
    refusals: dict[RegressorKey, DomainError] = field(default_factory=dict)

    def get(self, slug: Slug, version: int | None) -> ServedRegressor:
        """Return a regressor; raises as `RegressorCache.get` does."""
        refusal = self.refusals.get((slug, version))
        if refusal is not None:
            raise refusal
        pointer = self.pointers.get(slug)
        if pointer is not None and not self.cache.holds(self.project_id, slug, version):
            served = self.cache.load_known(self.project_id, slug, version, pointer)
            if served is not None:
                return served
        return self.cache.get(self.project_id, slug, version, self.asked_at)

    def in_memory_first(self, keys: Iterable[RegressorKey]) -> list[RegressorKey]:
        """Return keys in the order in which to ask: loading others may displace those in memory."""
        return sorted(keys, key=lambda key: not self.cache.holds(self.project_id, *key))


def _weight_of(served: ServedRegressor) -> int:
    return served.artifact_bytes + _BYTES_BESIDE
