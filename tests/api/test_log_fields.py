"""Each log line tells the request or the fit that it was written for, and no secret."""

import logging

import pytest
from fastapi.testclient import TestClient
from typing_extensions import override

from app.domain.access import DEFAULT_PROJECT, Scope
from app.domain.identifiers import Slug
from app.fitter import Fitter
from app.services.computing.task import FitOutcome, FitTask, InProcessComputer, OnProgress
from app.services.fitting import FittingService
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.log_lines import log_lines
from tests.support.outage import make_unavailable
from tests.support.regressors import QUICK, store_runs

_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
_SLUG = Slug("resnet")


def test_lines_and_problem_of_a_request_tell_its_id(client: TestClient, services: Services) -> None:
    make_unavailable(services.context.database)

    with log_lines() as lines:
        answer = client.get("/v1/workloads", headers={"X-Request-ID": "build-77"})

    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "build-77"
    assert lines.events
    assert {event["request_id"] for event in lines.events} == {"build-77"}


def test_problem_names_the_id_that_was_made_for_it(client: TestClient) -> None:
    answer = client.get("/v1/nothing")

    assert answer.json()["request_id"] == answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("given", "is_taken"),
    [
        (f"00-{_TRACE}-00f067aa0ba902b7-01", True),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", False),
        (f"00-{_TRACE.upper()}-00f067aa0ba902b7-01", False),
        ("nonsense", False),
    ],
)
def test_request_of_a_trace_has_its_id(client: TestClient, given: str, *, is_taken: bool) -> None:
    answer = client.get("/healthz", headers={"traceparent": given})

    assert (answer.headers["x-request-id"] == _TRACE) is is_taken


def test_own_id_goes_before_that_of_the_trace(client: TestClient) -> None:
    headers = {"traceparent": f"00-{_TRACE}-00f067aa0ba902b7-01", "X-Request-ID": "mine"}

    assert client.get("/healthz", headers=headers).headers["x-request-id"] == "mine"


class FailingComputer(InProcessComputer):
    """Fails on a fit as nobody foresaw."""

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        """Fail."""
        raise ValueError


@pytest.mark.parametrize("computer", [InProcessComputer(), FailingComputer()])
def test_lines_of_a_fit_tell_fit_and_workload(
    services: Services, computer: InProcessComputer
) -> None:
    store_runs(services.context, _SLUG)
    fit, _ = services.fits.request_fit(DEFAULT_PROJECT, _SLUG, QUICK)
    fitter = Fitter(FittingService(services.context), computer, services.context.settings)

    with log_lines() as lines:
        fitter.step()

    assert len(lines.events) >= 2
    assert {(event["fit"], event["workload"]) for event in lines.events} == {(fit.fit_id, _SLUG)}


def test_no_line_tells_a_key(client: TestClient, services: Services, clock: FakeClock) -> None:
    _, token = services.access.create_key("ci", [Scope.READ])
    secret = token.rpartition("_")[2]

    with log_lines(logging.DEBUG) as lines:
        for bearer in (token, f"{token}f", f"tf_{secret}"):
            client.get("/v1/workloads", headers={"Authorization": f"Bearer {bearer}"})
        clock.advance(60)
        make_unavailable(services.context.database)
        client.get("/v1/workloads", headers={"Authorization": f"Bearer {token}"})
        services.access.close()

    assert lines.events
    assert secret not in "".join(lines.lines)


@pytest.mark.parametrize("name", ["", "two words", "x" * 129])
def test_trace_names_a_request_whose_own_id_is_of_no_use(client: TestClient, name: str) -> None:
    headers = {"traceparent": f"00-{_TRACE}-00f067aa0ba902b7-01", "X-Request-ID": name}

    assert client.get("/healthz", headers=headers).headers["x-request-id"] == _TRACE
