"""Streams, and who waits for a fit, end soon after the key that they came with is revoked."""

import threading
from collections.abc import Callable

import pytest
import sqlalchemy as sa
from fastapi.testclient import TestClient
from httpx2 import Response

from app.domain.access import DEFAULT_PROJECT, Scope
from app.services.wiring import Services
from tests.api.test_fits import FITS, QUICK, events
from tests.support.clock import FakeClock
from tests.support.regressors import store_runs


def _until_revoked(
    client: TestClient,
    services: Services,
    clock: FakeClock,
    ask: Callable[[str, dict[str, str]], Response],
) -> Response:
    """Return what is answered to one whose key is revoked while its fit is active."""
    store_runs(services.context, "resnet")
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]
    key, token = services.access.create_key("follower", [Scope.READ, Scope.FITS_WRITE])
    looks = threading.Semaphore(0)
    answers = []

    @sa.event.listens_for(services.context.database.engine, "before_cursor_execute")
    def _look(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT fit."):
            looks.release()

    def follow() -> None:
        answers.append(ask(f"/v1/fits/{fit_id}", {"Authorization": f"Bearer {token}"}))

    thread = threading.Thread(target=follow)
    thread.start()
    for _ in range(3):
        assert looks.acquire(timeout=60)
    services.access.revoke_key(key.key_id)
    clock.advance(6)
    thread.join(timeout=30)
    has_ended = not thread.is_alive()
    services.fits.cancel(DEFAULT_PROJECT, fit_id)
    thread.join()

    assert has_ended
    return answers[0]


def test_events_end_when_the_key_is_revoked(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    answer = _until_revoked(
        client, services, clock, lambda fit, headers: client.get(f"{fit}/events", headers=headers)
    )

    assert [name for name, _ in events(answer.text)] == ["progress"]


@pytest.mark.parametrize("asks_for_one", [False, True])
def test_waiting_for_a_fit_ends_when_the_key_is_revoked(
    client: TestClient, services: Services, clock: FakeClock, *, asks_for_one: bool
) -> None:
    def ask(fit: str, headers: dict[str, str]) -> Response:
        headers["Prefer"] = "wait=60"
        return (
            client.post(FITS, headers=headers) if asks_for_one else client.get(fit, headers=headers)
        )

    answer = _until_revoked(client, services, clock, ask)

    assert (answer.status_code, answer.json()["state"]) == (200, "queued")
