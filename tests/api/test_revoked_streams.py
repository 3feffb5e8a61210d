"""Streams end soon after the key that opened them is revoked."""

import threading

import sqlalchemy as sa
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Scope
from app.services.wiring import Services
from tests.api.test_fits import FITS, QUICK, events
from tests.support.clock import FakeClock
from tests.support.regressors import store_runs


def test_events_end_when_the_key_is_revoked(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    store_runs(services.context, "resnet")
    fit_id = client.post(FITS, json=QUICK).json()["fit_id"]
    key, token = services.access.create_key("follower", [Scope.READ])
    looks = threading.Semaphore(0)
    answers = []

    @sa.event.listens_for(services.context.database.engine, "before_cursor_execute")
    def _look(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT fit."):
            looks.release()

    def follow() -> None:
        headers = {"Authorization": f"Bearer {token}"}
        answers.append(client.get(f"/v1/fits/{fit_id}/events", headers=headers))

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
    assert [name for name, _ in events(answers[0].text)] == ["progress"]
