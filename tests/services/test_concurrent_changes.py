"""Changes of one thing that come at the same time all stand afterwards."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from threading import Barrier

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.errors import DomainError, NotFoundError, UnknownWorkloadError
from app.domain.identifiers import RunId, Slug
from app.domain.quotas import Limit, Quota
from app.domain.runs import RunChange
from app.services.refitting.refits import RefitService
from app.services.wiring import Services
from tests.support.regressors import QUICK, store_runs

pytestmark = pytest.mark.lengthy

_CALLER = Principal(DEFAULT_PROJECT, frozenset(Scope))
_ROUNDS = 5


def _at_once(*actions: Callable[[], object]) -> None:
    barrier = Barrier(len(actions))

    def act(action: Callable[[], object]) -> None:
        barrier.wait()
        action()

    with ThreadPoolExecutor(len(actions)) as pool:
        list(pool.map(act, actions))


def _run_id(services: Services) -> RunId:
    store_runs(services.context, "fitted")
    return services.runs.list_page(DEFAULT_PROJECT, Slug("fitted")).items[0].run_id


def _report(client: TestClient, number: int) -> str:
    run = {"workload": "w", "external_id": f"e{number}", "duration_seconds": 10.0, "workers": 1}
    body = {"commit": "a" * 40, "branch": "feat", "base_branch": "main", "runs": [run]}
    report_id: str = client.post("/v1/ci/reports", json=body).json()["report_id"]
    return report_id


def test_labels_that_are_set_at_once_all_stand(services: Services) -> None:
    run_id = _run_id(services)
    names = [[f"label-{turn}-{i}" for i in range(4)] for turn in range(_ROUNDS)]

    for some in names:
        changes = [RunChange(None, None, {name: "x"}) for name in some]
        _at_once(*(partial(services.runs.change, _CALLER, run_id, change) for change in changes))

    stored = services.runs.get(DEFAULT_PROJECT, run_id).labels
    assert sorted(stored) == sorted(name for some in names for name in some)


def test_acknowledgement_stands_beside_a_promotion_of_its_report(
    client: TestClient, services: Services
) -> None:
    for number in range(_ROUNDS):
        report_id = _report(client, number)
        acknowledge = partial(services.ci.acknowledge, author="ada", reason="meant")

        _at_once(
            partial(acknowledge, _CALLER, report_id),
            partial(services.ci.promote, _CALLER, report_id),
        )

        stored = services.ci.get(DEFAULT_PROJECT, report_id)
        assert stored.acknowledgement is not None
        assert stored.promoted_at is not None


def test_workload_is_removed_beside_promotions_of_its_reports(
    client: TestClient, services: Services
) -> None:
    ended = []

    def promote(report_id: str) -> None:
        with suppress(NotFoundError):
            services.ci.promote(_CALLER, report_id)
        ended.append(report_id)

    for number in range(_ROUNDS):
        reports = [_report(client, 3 * number + index) for index in range(3)]

        _at_once(
            *(partial(promote, report_id) for report_id in reports),
            partial(services.workloads.delete, _CALLER, Slug("w")),
        )

        assert services.ci.list_page(DEFAULT_PROJECT).items == []
    assert len(ended) == 3 * _ROUNDS


def test_workload_is_removed_beside_requests_for_its_fit(services: Services) -> None:
    slug = Slug("fitted")
    refused = []

    def ask() -> None:
        try:
            services.fits.request_fit(DEFAULT_PROJECT, slug, QUICK)
        except UnknownWorkloadError as error:
            refused.append(error)

    for _ in range(_ROUNDS):
        store_runs(services.context, slug)

        _at_once(
            ask,
            partial(services.workloads.delete, _CALLER, slug),
            partial(RefitService(services.context).request_all, timedelta()),
            ask,
        )

    assert len(refused) <= 2 * _ROUNDS


def test_label_stands_beside_a_promotion_of_its_run(client: TestClient, services: Services) -> None:
    for number in range(_ROUNDS):
        report_id = _report(client, number)
        run_id = RunId(services.ci.get(DEFAULT_PROJECT, report_id).document["runs"][0]["run_id"])
        change = RunChange(None, None, {"seen": "yes"})

        _at_once(
            partial(services.runs.change, _CALLER, run_id, change),
            partial(services.ci.promote, _CALLER, report_id),
        )

        stored = services.runs.get(DEFAULT_PROJECT, run_id)
        assert (stored.labels.get("seen"), stored.excluded) == ("yes", False)


def test_limits_that_are_set_at_once_all_stand(services: Services) -> None:
    for number in range(1, _ROUNDS + 1):
        _at_once(
            partial(services.projects.limit, "default", {Limit.WORKLOADS: number}),
            partial(services.projects.limit, "default", {Limit.QUEUED_FITS: number}),
            partial(services.projects.limit, "default", {Limit.FITS_PER_DAY: number}),
        )

        [(_, quota)] = services.projects.list_all()
        assert quota == Quota(workloads=number, queued_fits=number, fits_per_day=number)


def test_runs_and_workloads_are_removed_once(services: Services) -> None:
    refused: list[DomainError] = []

    def remove(action: Callable[[], object]) -> None:
        try:
            action()
        except (NotFoundError, UnknownWorkloadError) as error:
            refused.append(error)

    for _ in range(_ROUNDS):
        run_id = _run_id(services)
        remove_run = partial(services.runs.delete, _CALLER, run_id)
        remove_workload = partial(services.workloads.delete, _CALLER, Slug("fitted"))

        _at_once(*3 * [partial(remove, remove_run)])
        _at_once(*3 * [partial(remove, remove_workload)])

    removed = ("run.delete", "workload.delete")
    entries = services.access.list_audit("default", limit=100)
    assert len(refused) == 4 * _ROUNDS
    assert len([entry for entry in entries if entry.action in removed]) == 2 * _ROUNDS


def test_grid_factor_is_withdrawn_once(client: TestClient, services: Services) -> None:
    factor = {"kg_co2e_per_kwh": "0.2", "valid_from": "2026-01-01T00:00:00Z", "source": "us"}
    answer = client.post("/v1/grid-factors", json=factor).json()
    key = answer["grid_factors"][0]["factor_id"]
    refused = []

    def withdraw() -> None:
        try:
            services.grid_factors.withdraw(_CALLER, key)
        except NotFoundError as error:
            refused.append(error)

    _at_once(withdraw, withdraw, withdraw)

    assert len(refused) == 2
    with pytest.raises(NotFoundError):
        services.grid_factors.withdraw(_CALLER, key)
