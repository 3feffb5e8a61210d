"""What metrics, the diagnosis and the headers tell about a service at work."""

import hashlib
import logging

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.identifiers import Slug
from app.services.fitting import FittingService
from app.services.wiring import Services
from app.settings import Settings
from app.storage.database import Database
from tests.support.clock import FakeClock
from tests.support.outage import make_unavailable
from tests.support.regressors import QUICK, make_fitter, publish_regressor, store_runs


def _value(client: TestClient, metric: str) -> float:
    [line] = [
        line for line in client.get("/metrics").text.splitlines() if line.startswith(f"{metric} ")
    ]
    return float(line.partition(" ")[2])


def test_metrics_tell_what_became_of_the_last_hours_fits(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    publish_regressor(services)
    now = 'trainfare_fits_last_hour{state="succeeded"}'
    before = _value(client, now)

    clock.advance(3601)

    assert before == 1.0
    assert _value(client, now) == 0.0
    assert _value(client, "trainfare_fit_takeovers_last_hour") == 0.0


def test_metrics_tell_how_long_the_oldest_fit_waits(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    store_runs(services.context, "resnet")
    services.fits.request_fit(DEFAULT_PROJECT, Slug("resnet"), QUICK)
    clock.advance(90)

    assert _value(client, "trainfare_fit_longest_wait_seconds") == 90.0
    assert _value(client, 'trainfare_fits_last_hour{state="queued"}') == 1.0


def test_fit_that_waited_for_hours_counts_in_the_hour_of_its_end(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    store_runs(services.context, "resnet")
    services.fits.request_fit(DEFAULT_PROJECT, Slug("resnet"), QUICK)
    clock.advance(3 * 3600)
    waiting = _value(client, 'trainfare_fits_last_hour{state="queued"}')

    make_fitter(services.context).step()

    assert waiting == 1.0
    assert _value(client, 'trainfare_fits_last_hour{state="queued"}') == 0.0
    assert _value(client, 'trainfare_fits_last_hour{state="succeeded"}') == 1.0


def test_metrics_tell_of_fits_that_another_fitter_took_over(
    client: TestClient, services: Services, clock: FakeClock
) -> None:
    store_runs(services.context, "resnet")
    services.fits.request_fit(DEFAULT_PROJECT, Slug("resnet"), QUICK)
    fitting = FittingService(services.context)
    fitting.claim("a fitter that dies")
    clock.advance(2 * services.context.settings.lease_s)

    fitting.claim("another one")

    assert _value(client, "trainfare_fit_takeovers_last_hour") == 1.0


def test_diagnosis_names_a_published_regressor_that_cannot_be_loaded(
    services: Services, database: Database
) -> None:
    publish_regressor(services, "resnet")
    sound = {check.name: check for check in services.diagnosis.diagnose()}
    digest = hashlib.sha256(b"junk").hexdigest()
    literal = "X'6a756e6b'" if database.is_sqlite else "'\\x6a756e6b'"
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE regressor SET artifact = {literal}, artifact_sha256 = '{digest}'"
        )

    checks = {check.name: check for check in services.diagnosis.diagnose()}

    assert sound["regressors"].is_ok
    assert checks["artefacts"].is_ok
    assert "resnet version 1" in checks["regressors"].detail


def test_diagnosis_tells_a_database_out_of_use_in_one_line(
    services: Services, database: Database
) -> None:
    make_unavailable(database)

    check = services.diagnosis.diagnose()[0]

    assert (check.name, check.is_ok) == ("database", False)
    assert " It says: " in check.detail
    assert "\n" not in check.detail
    assert "sqlalche.me" not in check.detail
    assert "permission to write there" in check.remedy


@pytest.mark.parametrize("path", ["/v1/workloads", "/v1/nothing", "/healthz", "/metrics"])
def test_browsers_may_do_nothing_with_an_answer(client: TestClient, path: str) -> None:
    headers = client.get(path).headers

    assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/", "/docs", "/problems"])
def test_pages_keep_the_policy_of_their_own(client: TestClient, path: str) -> None:
    policies = client.get(path).headers.get_list("content-security-policy")

    assert len(policies) == 1
    assert "style-src" in policies[0]


def test_secrets_are_not_logged(
    client: TestClient, services: Services, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    _, token = services.access.create_key("ci", [Scope.READ])
    bearer = {"Authorization": f"Bearer {token}"}

    client.get("/v1/workloads", headers=bearer)
    client.get("/v1/workloads", headers={"Authorization": f"Bearer {token}f"})
    make_unavailable(services.context.database)
    clock.advance(60)
    client.get("/v1/workloads", headers=bearer)
    services.access.close()

    assert caplog.records
    assert token.rpartition("_")[2] not in "".join(str(vars(record)) for record in caplog.records)


@pytest.mark.parametrize(
    "url", ["mysql://ada:sesame@h/x", "sesame", "postgresql://ada:sesame@h:port/x", "sqlite+x:///y"]
)
def test_database_of_another_kind_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValidationError, match="postgresql://USER") as caught:
        Settings(database_url=url)

    assert not any("sesame" in fault["msg"] for fault in caught.value.errors())


def test_settings_show_no_password() -> None:
    settings = Settings(database_url="postgresql://ada:sesame@localhost/trainfare")

    assert "sesame" not in f"{settings!r} {settings}"
