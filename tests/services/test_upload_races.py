"""Uploads that come at the same time end as if they had come one after the other."""

import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import orjson
import pytest

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.errors import SchemaDriftError
from app.domain.identifiers import Slug
from app.services.uploads.terms import UploadFormat, UploadResult
from app.services.wiring import Services
from tests.support.uploads import make_json_run

_UPLOADS = 4
_RUNS = 300


def _upload(services: Services, runs: object) -> UploadResult:
    body = io.BytesIO(orjson.dumps(runs))
    return services.uploads.upload(DEFAULT_PROJECT, body, UploadFormat.JSON)


def _upload_at_once(services: Services, uploads: Sequence[object]) -> list[UploadResult]:
    barrier = Barrier(len(uploads))

    def upload(runs: object) -> UploadResult:
        barrier.wait()
        return _upload(services, runs)

    with ThreadPoolExecutor(len(uploads)) as pool:
        return list(pool.map(upload, uploads))


def test_same_upload_at_once_is_created_once(services: Services) -> None:
    runs = [make_json_run(external_id=f"id-{i}") for i in range(_RUNS)]

    results = _upload_at_once(services, [runs] * _UPLOADS)

    assert sum(result.created for result in results) == _RUNS
    assert sum(result.duplicates for result in results) == _RUNS * (_UPLOADS - 1)


def test_workloads_in_another_order_do_not_block_each_other(services: Services) -> None:
    names = [f"w{i}" for i in range(20)]
    forth = [make_json_run(workload=name, external_id="a") for name in names]

    results = _upload_at_once(services, [forth, forth[::-1], forth[5:], forth[:15]])

    assert sum(result.created for result in results) == len(names)
    page = services.workloads.list_page(DEFAULT_PROJECT, page_size=100)
    assert sorted(item.workload.slug for item in page.items) == sorted(names)


def test_first_use_of_a_parameter_is_decided_once(services: Services) -> None:
    number = [make_json_run(parameters={"depth": 50})]
    category = [make_json_run(parameters={"depth": "fifty"})]

    def outcome(upload: object) -> str:
        try:
            _upload(services, upload)
        except SchemaDriftError:
            return "drift"
        return "created"

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(outcome, [number, category]))

    assert sorted(outcomes) == ["created", "drift"]


@pytest.mark.parametrize("attempt", range(5))
def test_upload_and_removal_of_a_workload_at_once_leave_no_orphan(
    services: Services, attempt: int
) -> None:
    runs = [make_json_run(external_id=f"id-{i}") for i in range(_RUNS)]
    _upload(services, make_json_run())
    caller = Principal(DEFAULT_PROJECT, frozenset(Scope))
    barrier = Barrier(2)

    def upload() -> int:
        barrier.wait()
        return _upload(services, runs).created

    def remove() -> None:
        barrier.wait()
        services.workloads.delete(caller, Slug("resnet50"))

    with ThreadPoolExecutor(2) as pool:
        created = pool.submit(upload)
        pool.submit(remove).result()

    assert created.result() == _RUNS
    again = _upload(services, runs)
    assert again.created + again.duplicates == _RUNS
