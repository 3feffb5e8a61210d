"""The store of the ledger of recorded forecasts."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from app.domain.accuracy import RealisedForecast
from app.domain.configurations import Configuration, Scenario, Work
from app.domain.flat_fields import SameGpu, contradictions
from app.domain.forecasts import (
    LedgerEntry,
    LedgerRecord,
    LinkedRun,
    RecordedForecast,
    SpotTerms,
)
from app.domain.identifiers import (
    ForecastId,
    ProjectId,
    RunId,
    Slug,
    WorkloadId,
    earliest_identifier,
)
from app.domain.runs import RunStatus
from app.storage.bulk import insert_columns
from app.storage.lists import texts_subquery
from app.storage.run_rows import IS_USABLE, SCENARIO, scenario_of
from app.storage.tables import ForecastRow, ProjectRow, RunRow, WorkloadRow
from app.storage.workloads import WorkloadStore

_MAX_LINKED = 1000
_MAX_REALISED = 10_000
MAX_RECORDED = 50_000
MAX_SEARCHED = 200_000
"""How many of a workload's newest forecasts are searched for scenarios."""

_SCENARIO_MEMBERS: Final = ("configuration", "work", "parameters")
_ASKED: Final = (
    *(ForecastRow.answer[name].label(f"asked_{name}") for name in _SCENARIO_MEMBERS),
    ForecastRow.request["configuration"].label("given"),
)
"""The columns that `_asked_in` reads."""

_KEY_CHARACTERS: Final = 16
"""How much of a digest is stored: 64 bits suffice to tell one workload's scenarios apart. Releases
before revision 0015 stored all 64 characters."""


def _columns(records: Sequence[LedgerRecord]) -> Mapping[str, Sequence[object]]:
    questions, forecast_ids, instants, answers = zip(*records, strict=True)
    workload_ids, versions, requests, digests = zip(*questions, strict=True)
    return {
        "id": forecast_ids,
        "workload_id": workload_ids,
        "regressor_version": versions,
        "created_at": instants,
        "scenario_sha256": [None if digest is None else _key(digest) for digest in digests],
        "request": list(map(bytes.decode, requests)),
        "answer": list(map(bytes.decode, answers)),
    }


def _key(digest: str) -> str:
    return digest[:_KEY_CHARACTERS]


def _made_before(instant: datetime) -> sa.ColumnElement[bool]:
    # Identifiers sort by time: their index finds the oldest ones.
    return ForecastRow.id < earliest_identifier("fc", instant)


def _unnamed(project_id: ProjectId | None) -> list[sa.ColumnElement[bool]]:
    is_named = sa.exists().where(RunRow.forecast_id == ForecastRow.id)
    if project_id is None:
        return [~is_named]
    # Checked for each row: given a list of workloads, SQLite reads their whole ledgers each time.
    workload = WorkloadRow.id == ForecastRow.workload_id, WorkloadRow.project_id == project_id
    return [~is_named, sa.exists().where(*workload)]


class ForecastStore:
    """Reads and writes the ledger of recorded forecasts in one session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def add_many(self, records: Sequence[LedgerRecord]) -> int:
        """Store the records whose workload still exists; return how many."""
        workload_ids = {record.question.workload_id for record in records}
        existing = WorkloadStore(self._session).hold(workload_ids)
        storable = [record for record in records if record.question.workload_id in existing]
        if storable:
            insert_columns(
                self._session.connection(), ForecastRow.__tablename__, _columns(storable)
            )
        return len(storable)

    def stored(self, forecast_ids: Sequence[ForecastId]) -> set[ForecastId]:
        """Return those of the identifiers that have a record."""
        named = ForecastRow.id.in_(texts_subquery(self._session, forecast_ids))
        return set(map(ForecastId, self._session.scalars(sa.select(ForecastRow.id).where(named))))

    def get(
        self, project_id: ProjectId, forecast_id: ForecastId, is_same_gpu: SameGpu
    ) -> LedgerEntry | None:
        """Return a recorded forecast with the runs that name it, None if there is none."""
        found = self._session.execute(
            sa.select(ForecastRow, WorkloadRow.slug)
            .join(WorkloadRow, WorkloadRow.id == ForecastRow.workload_id)
            .where(WorkloadRow.project_id == project_id, ForecastRow.id == forecast_id)
        ).one_or_none()
        if found is None:
            return None
        row, slug = found
        return LedgerEntry(
            forecast_id=forecast_id,
            workload=Slug(slug),
            regressor_version=row.regressor_version,
            created_at=row.created_at,
            request=row.request,
            answer=row.answer,
            runs=self._linked(row, Slug(slug), is_same_gpu),
        )

    def workloads_of(self, project_id: ProjectId, forecast_ids: Sequence[str]) -> dict[str, Slug]:
        """Return the workload of each of the forecasts that is recorded in the project."""
        if not forecast_ids:
            return {}
        rows = self._session.execute(
            sa.select(ForecastRow.id, WorkloadRow.slug)
            .join(WorkloadRow, WorkloadRow.id == ForecastRow.workload_id)
            .where(
                WorkloadRow.project_id == project_id,
                ForecastRow.id.in_(texts_subquery(self._session, forecast_ids)),
            )
        )
        return {key: Slug(slug) for key, slug in rows}

    def recorded(
        self,
        workload_id: WorkloadId,
        forecast_ids: Sequence[str],
        scenario_sha256: Sequence[str],
        since: datetime,
    ) -> list[RecordedForecast]:
        """Return a workload's recorded forecasts with these identifiers or scenarios, oldest first.

        Scenarios are searched among its newest `MAX_SEARCHED` forecasts, of those made since an
        instant. If there are more than `MAX_RECORDED`, the newest are returned. The digest is None
        for any other scenario. What was asked, and interruptions, are read of those with these
        identifiers.
        """
        row = ForecastRow
        by_key = {_key(digest): digest for digest in scenario_sha256}
        keys = [*by_key, *scenario_sha256]
        # Two queries: for one condition with OR, SQLite scans the workload's whole ledger.
        named = sa.select(row.id).where(row.id.in_(texts_subquery(self._session, forecast_ids)))
        wanted = sa.union(named, self._with_scenarios(workload_id, keys, since)).subquery()
        newest = (
            sa.select(row.id, row.regressor_version, row.created_at, row.scenario_sha256)
            .join(wanted, wanted.c.id == row.id)
            .where(row.workload_id == workload_id)
            .order_by(row.id.desc())
            .limit(MAX_RECORDED)
        )
        rows = self._session.execute(newest).all()
        named_answers = self._named_answers(workload_id, forecast_ids)
        return [
            RecordedForecast(
                ForecastId(forecast_id),
                version,
                created_at,
                by_key.get(_key(digest or "")),
                *named_answers.get(forecast_id, ()),
            )
            for forecast_id, version, created_at, digest in reversed(rows)
        ]

    def _named_answers(
        self, workload_id: WorkloadId, forecast_ids: Sequence[str]
    ) -> dict[str, tuple[Scenario, SpotTerms | None]]:
        """Return what each of the forecasts was asked for, and the interruptions it expected."""
        if not forecast_ids:
            return {}
        row = ForecastRow
        rows = self._session.execute(
            sa.select(row.id, row.answer["spot"].label("spot"), *_ASKED).where(
                row.workload_id == workload_id,
                row.id.in_(texts_subquery(self._session, forecast_ids)),
            )
        )
        names = [field.name for field in fields(SpotTerms)]
        return {
            row.id: (
                _asked_in(row),
                None if row.spot is None else SpotTerms(*(row.spot[name] for name in names)),
            )
            for row in rows
        }

    def prune(
        self, before: datetime, project_id: ProjectId | None, *, after: ForecastId, limit: int
    ) -> tuple[ForecastId, int] | None:
        """Remove, among the next forecasts, those from before an instant that no run names.

        Parameters
        ----------
        before
            Later ones are kept.
        project_id
            Restricts the removal to one project; None: all projects.
        after
            The last forecast examined before.
        limit
            How many are examined.

        Returns
        -------
        tuple or None
            The last forecast examined and how many were removed; None if none was left.
        """
        row = ForecastRow
        waiting = sa.select(row.id).where(row.id > after, _made_before(before))
        keys = self._session.scalars(waiting.order_by(row.id).limit(limit)).all()
        if not keys:
            return None
        old = row.id > after, row.id <= keys[-1]
        unnamed = sa.select(row.id).where(*old, *_unnamed(project_id))
        # Rows that someone else is removing, as with their workload, are left to them.
        ours = unnamed.with_for_update(of=row, skip_locked=True)
        removed = sa.delete(row).where(row.id.in_(ours)).returning(row.workload_id)
        return ForecastId(keys[-1]), len(self._session.scalars(removed).all())

    def count_unnamed(self, before: datetime, project_id: ProjectId | None) -> int:
        """Return how many forecasts from before an instant are named by no run."""
        old = sa.select(sa.func.count()).select_from(ForecastRow).where(_made_before(before))
        return self._session.scalars(old.where(*_unnamed(project_id))).one()

    def _with_scenarios(
        self, workload_id: WorkloadId, keys: Sequence[str], since: datetime
    ) -> sa.Select[str]:
        # One index in order of time holds all these columns: no rows are read, nothing is sorted.
        row = ForecastRow
        newest = (
            sa.select(row.id, row.scenario_sha256)
            .where(row.workload_id == workload_id, row.id >= earliest_identifier("fc", since))
            .order_by(row.id.desc())
            .limit(MAX_SEARCHED)
            .subquery()
        )
        given = texts_subquery(self._session, keys)
        return sa.select(newest.c.id).where(newest.c.scenario_sha256.in_(given))

    def _linked(
        self, forecast: ForecastRow, slug: Slug, is_same_gpu: SameGpu
    ) -> tuple[LinkedRun, ...]:
        rows = self._session.execute(
            sa.select(RunRow.id, RunRow.status, RunRow.duration_seconds, *SCENARIO)
            .where(RunRow.forecast_id == forecast.id, RunRow.workload_id == forecast.workload_id)
            .order_by(RunRow.id)
            .limit(_MAX_LINKED)
        )
        return tuple(
            LinkedRun(
                RunId(row.id),
                slug,
                RunStatus(row.status),
                row.duration_seconds,
                contradictions(
                    _asked(forecast.answer, forecast.request.get("configuration")),
                    scenario_of(row),
                    is_same_gpu,
                ),
            )
            for row in rows
        )

    def realised(self, since: datetime, is_same_gpu: SameGpu) -> list[RealisedForecast]:
        """Return forecasts made since an instant that good runs name, of the newest 10,000.

        Runs of something else than was asked are left out. Forecast identifiers sort by time, so
        their index finds the newest.
        """
        rows = self._session.execute(
            sa.select(
                ProjectRow.name,
                WorkloadRow.slug,
                RunRow.duration_seconds,
                ForecastRow.answer["duration_seconds"].label("interval"),
                *_ASKED,
                *SCENARIO,
            )
            .join(ForecastRow, ForecastRow.id == RunRow.forecast_id)
            .join(WorkloadRow, WorkloadRow.id == RunRow.workload_id)
            .join(ProjectRow, ProjectRow.id == WorkloadRow.project_id)
            .where(
                RunRow.forecast_id >= earliest_identifier("fc", since),
                RunRow.workload_id == ForecastRow.workload_id,
                *IS_USABLE,
                ForecastRow.created_at >= since,
            )
            .order_by(RunRow.forecast_id.desc())
            .limit(_MAX_REALISED)
        )
        return [
            RealisedForecast(
                row.name,
                Slug(row.slug),
                row.duration_seconds,
                row.interval["median"],
                row.interval["lower"],
                row.interval["upper"],
                row.interval["confidence"],
            )
            for row in rows
            if not contradictions(_asked_in(row), scenario_of(row), is_same_gpu)
        ]


def _asked_in(row: sa.Row[Any]) -> Scenario:
    members = {name: getattr(row, f"asked_{name}") for name in _SCENARIO_MEMBERS}
    return _asked(members, row.given)


def _asked(answer: Mapping[str, Any], given: Mapping[str, Any] | None) -> Scenario:
    """Return the scenario of an answer, with the number of nodes only if the request gave it."""
    configuration, work = answer["configuration"], answer["work"]
    is_given = given is not None and given.get("nodes") is not None
    return Scenario(
        Configuration(
            gpu_type=configuration["gpu_type"],
            instance_type=configuration["instance_type"],
            nodes=configuration["nodes"] if is_given else None,
            workers=configuration["workers"],
        ),
        Work(work["dataset_size"], work["batch_size"], work["epochs"]),
        answer["parameters"],
    )
