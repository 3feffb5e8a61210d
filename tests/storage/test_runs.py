"""Many runs are stored at once; a database that fails meanwhile is said to be unavailable."""

import os
from dataclasses import astuple, replace
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
import sqlalchemy as sa

from app.domain.access import DEFAULT_PROJECT
from app.domain.availability_errors import StorageUnavailableError
from app.domain.errors import NotEnoughRunsError
from app.domain.identifiers import RunId, Slug, new_identifiers
from app.domain.runs import NewRuns, RunContent, RunFilter, RunStatus
from app.domain.workloads import CategoryLevels, NumberRange, Workload
from app.storage.database import Database
from app.storage.stores import Stores
from tests.support.queries import recorded_queries

_NOW = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)


def _claim(stores: Stores) -> Workload:
    stores.workloads.claim(DEFAULT_PROJECT, [Slug("a")], _NOW)
    workload = stores.workloads.get(DEFAULT_PROJECT, Slug("a"))
    assert workload is not None
    return workload


def _make_runs(workload: Workload, count: int) -> NewRuns:
    return NewRuns(
        run_id=[RunId(key) for key in new_identifiers("run", count)],
        workload_id=[workload.workload_id] * count,
        external_id=None,
        content_sha256=["0" * 64] * count,
        content=RunContent(
            status=["succeeded"] * count,
            duration_seconds=[1.5] * count,
            workers=[2] * count,
            started_at=[_NOW, None] * (count // 2),
        ),
        created_at=_NOW,
    )


def _break(database: Database, session_connection: sa.Connection) -> None:
    """Take the space away from SQLite, or the connection from PostgreSQL."""
    if database.is_sqlite:
        pages = session_connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        session_connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 1}")
        return
    process = session_connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    url = os.environ["TRAINFARE_TEST_POSTGRESQL_URL"]
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(%s, 10000)", [process])


@pytest.mark.parametrize("sign", ["\\", "\t", "\n", "\r", "\\N"])
def test_texts_are_read_as_they_were_stored(database: Database, sign: str) -> None:
    names = [f"first{sign}", f"{sign}second"]
    with database.transaction() as stores:
        workload = _claim(stores)
        runs = replace(_make_runs(workload, 2), external_id=names)
        with stores.runs.adding() as add:
            add(runs)

    with database.reading() as stores:
        stored = stores.runs.get_many(DEFAULT_PROJECT, runs.run_id)

    assert [run.external_id for run in stored] == names


def test_runs_since_an_instant_are_found_in_the_index_of_identifiers(database: Database) -> None:
    hour = timedelta(hours=1)
    with database.transaction() as stores:
        workload = _claim(stores)
        # The second upload waited for its locks: its identifiers are later than its instant.
        for delay_s, moment in ((0, _NOW - hour), (300, _NOW), (0, _NOW + hour)):
            made_at = moment + timedelta(seconds=delay_s)
            run_ids = [RunId(key) for key in new_identifiers("run", 2, now=made_at)]
            with stores.runs.adding() as add:
                add(replace(_make_runs(workload, 2), run_id=run_ids, created_at=moment))
    wanted = RunFilter(created_after=_NOW - hour, created_before=_NOW + hour)

    with database.reading() as stores, recorded_queries(database) as queries:
        found = stores.runs.page(workload, wanted, limit=10).items

    assert [run.created_at for run in found] == [_NOW, _NOW]
    assert "run.id >= " in queries[0]


def test_instants_are_read_as_they_were_stored(database: Database) -> None:
    with database.transaction() as stores:
        workload = _claim(stores)
        with stores.runs.adding() as add:
            add(_make_runs(workload, 4))

    with database.reading() as stores:
        columns = stores.runs.evidence_for_fit(workload.workload_id, None).runs
        runs = stores.runs.get_many(DEFAULT_PROJECT, columns.run_ids)

    assert list(columns.created_at) == [_NOW] * 4
    assert [run.started_at for run in runs] == [_NOW, None, _NOW, None]


def test_power_is_summed_by_kind_of_machine_over_what_was_measured(database: Database) -> None:
    machines = [("T4", "box"), ("T4", None), (None, "box"), (None, "crate"), ("A100", None)]
    measured = ['{"energy_joules":300}', '{"gpu_utilization":0.5}', None, '{"energy_joules":30.5}']
    with database.transaction() as stores:
        workload = _claim(stores)
        runs = _make_runs(workload, 20)
        content = replace(
            runs.content,
            duration_seconds=[1.0 + row for row in range(20)],
            gpu_type=[machines[row % 5][0] for row in range(20)],
            instance_type=[machines[row % 5][1] for row in range(20)],
            resources=[measured[row // 5] for row in range(20)],
        )
        with stores.runs.adding() as add:
            add(replace(runs, content=content))

    with database.reading() as stores, recorded_queries(database) as queries:
        power = stores.runs.measured_power(workload.workload_id)

    # Two workers each: 330.5 J in 2 * (1 + 16) s of the first kind.
    assert power["T4", None].watts == pytest.approx(2 * 330.5 / (2 * (1 + 16 + 2 + 17)))
    assert power[None, "box"].watts == pytest.approx(330.5 / (2 * (3 + 18)))
    assert power[None, None].watts == pytest.approx(2 * 330.5 / (2 * (3 + 18 + 4 + 19)))
    assert [each.utilization for each in power.values()] == pytest.approx([0.5] * 5)
    assert power.keys() == {
        ("T4", None),
        ("A100", None),
        (None, None),
        (None, "box"),
        (None, "crate"),
    }
    [query] = queries
    assert "GROUP BY" in query


def test_durations_are_told_without_what_belongs_to_other_questions(database: Database) -> None:
    with database.transaction() as stores:
        workload = _claim(stores)
        runs = _make_runs(workload, 4)
        labels = ['{"team":"nlp"}'] * 4
        with stores.runs.adding() as add:
            add(replace(runs, content=replace(runs.content, labels=labels)))

    with database.reading() as stores, recorded_queries(database) as queries:
        page = stores.runs.newest_measured(workload, RunFilter(), limit=3)
        whole = stores.runs.page(workload, RunFilter(), limit=3)

    assert page.items == [replace(run, labels={}) for run in whole.items]
    assert page.next_key == whole.next_key
    assert "labels" not in queries[0]


@pytest.mark.parametrize("count", [2, 50, 52, 100, 126])
def test_every_run_of_a_block_is_stored_in_its_place(database: Database, count: int) -> None:
    durations = [float(number) for number in range(1, count + 1)]
    with database.transaction() as stores:
        workload = _claim(stores)
        runs = _make_runs(workload, count)
        with stores.runs.adding() as add:
            add(replace(runs, content=replace(runs.content, duration_seconds=durations)))

    with database.reading() as stores:
        by_id = {
            run.run_id: run.duration_seconds
            for run in stores.runs.get_many(DEFAULT_PROJECT, runs.run_id)
        }

    assert by_id == dict(zip(runs.run_id, durations, strict=True))


def test_numbers_are_stored_to_the_last_digit_and_absent_ones_stay_absent(
    database: Database,
) -> None:
    sizes = [1e-7, 6.16409758480248e-05, 0.1, None, 123_456_789.123, 1e16, 5e-324, 1.7e308]
    nodes = [1, None, 3, 2**31 - 1] * 2
    with database.transaction() as stores:
        workload = _claim(stores)
        runs = _make_runs(workload, len(sizes))
        content = replace(runs.content, dataset_size=sizes, nodes=nodes)
        with stores.runs.adding() as add:
            add(replace(runs, content=content))

    with database.reading() as stores:
        by_id = {run.run_id: run for run in stores.runs.get_many(DEFAULT_PROJECT, runs.run_id)}

    told = [by_id[run_id].scenario for run_id in runs.run_id]
    assert [each.work.dataset_size for each in told] == sizes
    assert [each.configuration.nodes for each in told] == nodes


def test_columns_of_a_fit_are_those_that_the_newest_runs_were_stored_with(
    database: Database,
) -> None:
    with database.transaction() as stores:
        workload = _claim(stores)
        runs = _make_runs(workload, 2)
        runs = replace(runs, run_id=sorted(runs.run_id), content_sha256=["1" * 64, "2" * 64])
        content = replace(
            runs.content,
            gpu_type=["T4", "A100"],
            instance_type=["box", "crate"],
            nodes=[1, 3],
            workers=[2, 4],
            dataset_size=[10.0, 11.0],
            batch_size=[12.0, 13.0],
            epochs=[14.0, 15.0],
            parameters=['{"precision":"fp16"}', None],
            started_at=[None, _NOW],
        )
        with stores.runs.adding() as add:
            add(replace(runs, content=content))

    with database.reading() as stores:
        newest = stores.runs.newest_usable(workload.workload_id, None, limit=1)
        both = stores.runs.newest_usable(workload.workload_id, None, limit=3)

    assert [list(column) for column in astuple(newest)] == [
        *([runs.run_id[1]], ["2" * 64], [_NOW], [1.5]),
        *(["A100"], ["crate"], [3], [4], [11.0], [13.0], [15.0], [{}], [_NOW]),
    ]
    assert list(both.run_ids) == runs.run_id[::-1]
    assert both.parameters[1] == {"precision": "fp16"}


def test_blocks_with_other_columns_follow_each_other(database: Database) -> None:
    with database.transaction() as stores:
        workload = _claim(stores)
        named = replace(
            _make_runs(workload, 2),
            external_id=["a", None],
            content=RunContent(status=["failed"] * 2, duration_seconds=[2.5] * 2, workers=[1] * 2),
        )
        with stores.runs.adding() as add:
            for block in (_make_runs(workload, 4), named, _make_runs(workload, 2)):
                add(block)

    with database.reading() as stores:
        runs = stores.runs.find_external([(workload.workload_id, "a")])
        counts = stores.run_counts.by_status([workload.workload_id])[workload.workload_id]

    assert [set(names) for names in runs.values()] == [{"a"}]
    assert counts == {RunStatus.SUCCEEDED: 6, RunStatus.FAILED: 2}


def test_failure_between_blocks_keeps_none_of_them(database: Database) -> None:
    with database.transaction() as stores:
        workload = _claim(stores)

    def add_and_fail() -> None:
        with database.transaction() as stores, stores.runs.adding() as add:
            add(_make_runs(workload, 4))
            raise NotEnoughRunsError(Slug("a"), found=0, needed=1)

    with pytest.raises(NotEnoughRunsError):
        add_and_fail()

    with database.reading() as stores:
        assert not stores.runs.having_any([workload.workload_id])


def test_a_database_that_fails_meanwhile_is_unavailable_and_keeps_nothing(
    database: Database,
) -> None:
    with pytest.raises(StorageUnavailableError), database.transaction() as stores:  # noqa: PT012 - the whole transaction fails
        workload = _claim(stores)
        _break(database, stores.runs._session.connection())
        with stores.runs.adding() as add:
            add(_make_runs(workload, 2000))

    database.engine.dispose()
    with database.reading() as stores:
        assert stores.workloads.get(DEFAULT_PROJECT, Slug("a")) is None


def test_a_workload_without_runs_has_empty_columns(database: Database) -> None:
    with database.transaction() as stores:
        workload = _claim(stores)

        assert not stores.runs.evidence_for_fit(workload.workload_id, None).status
        assert not stores.runs.having_any([workload.workload_id])
        assert stores.runs.measured_features(workload.workload_id) == {}


@pytest.mark.parametrize("repeated", [True, False])
def test_parameters_are_told_alike_whether_runs_repeat_them_or_not(
    database: Database, *, repeated: bool
) -> None:
    with database.transaction() as stores:
        workload = _claim(stores)
        runs = _make_runs(workload, 6)
        rates = [0.5] * 6 if repeated else [0.25 * (index + 1) for index in range(6)]
        sets = [
            f'{{"lr": {rate}, "precision": "fp{16 + index % 2}"}}'
            for index, rate in enumerate(rates)
        ]
        with stores.runs.adding() as add:
            add(replace(runs, content=replace(runs.content, parameters=sets)))

        measured = stores.runs.measured_features(workload.workload_id)

    assert measured["param.lr"] == NumberRange(min(rates), max(rates), 6)
    assert measured["param.precision"] == CategoryLevels(("fp16", "fp17"), 6)
