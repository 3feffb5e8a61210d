"""Uploads ask for the fits that a workload's refit policy wants."""

from fastapi.testclient import TestClient

from tests.support.clock import FakeClock
from tests.support.uploads import make_json_run, post_json


def _declare(client: TestClient, **policy: object) -> None:
    client.put("/v1/workloads/resnet50", json={"refit_policy": policy})


def _fits(client: TestClient) -> list[str]:
    fits = client.get("/v1/workloads/resnet50/fits").json()["fits"]
    return [fit["state"] for fit in fits]


def _upload(client: TestClient, count: int, **changes: object) -> None:
    answer = post_json(client, [make_json_run(**changes)] * count)
    assert answer.status_code == 201


def test_manual_workloads_are_not_fitted_unasked(client: TestClient) -> None:
    _upload(client, 5)

    assert _fits(client) == []


def test_enough_new_runs_ask_for_a_fit(client: TestClient) -> None:
    _declare(client, mode="auto", min_new_runs=3)

    _upload(client, 2)
    after_two = _fits(client)
    _upload(client, 1)

    assert after_two == []
    assert _fits(client) == ["queued"]


def test_an_active_fit_is_enough(client: TestClient) -> None:
    _declare(client, mode="auto")

    _upload(client, 1)
    _upload(client, 1)

    assert _fits(client) == ["queued"]


def test_runs_count_from_the_last_fit_on(client: TestClient, clock: FakeClock) -> None:
    _declare(client, mode="auto", min_new_runs=2)
    _upload(client, 2)
    [fit] = client.get("/v1/workloads/resnet50/fits").json()["fits"]
    client.post(f"/v1/fits/{fit['fit_id']}:cancel")
    clock.advance(60)

    _upload(client, 1)
    after_one = _fits(client)
    clock.advance(60)
    _upload(client, 1)

    assert after_one == ["cancelled"]
    assert _fits(client) == ["queued", "cancelled"]


def test_one_run_is_enough_when_the_last_fit_is_old(client: TestClient, clock: FakeClock) -> None:
    _declare(client, mode="auto", min_new_runs=1)
    _upload(client, 1)
    [fit] = client.get("/v1/workloads/resnet50/fits").json()["fits"]
    client.post(f"/v1/fits/{fit['fit_id']}:cancel")
    _declare(client, mode="auto", min_new_runs=100, max_age_s=3600)

    clock.advance(60)
    _upload(client, 1)
    young = _fits(client)
    clock.advance(3600)
    _upload(client, 1)

    assert young == ["cancelled"]
    assert _fits(client) == ["queued", "cancelled"]


def test_runs_that_no_fit_could_use_do_not_count(client: TestClient) -> None:
    _declare(client, mode="auto")

    _upload(client, 3, status="failed")

    assert _fits(client) == []


def test_duplicates_and_dry_runs_ask_for_nothing(client: TestClient) -> None:
    _upload(client, 1, external_id="a")
    _declare(client, mode="auto")

    post_json(client, make_json_run(external_id="a"))
    post_json(client, make_json_run(), dry_run="true")

    assert _fits(client) == []
