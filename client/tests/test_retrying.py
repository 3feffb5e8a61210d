"""Attempts, pauses and idempotency keys."""

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trainfare_client import Client, ClientSettings, UnreachableError
from trainfare_client.answers import unreachable
from trainfare_client.errors import NotFoundError, QuotaExceededError, ServiceFailedError
from trainfare_client.retrying import Retries, retry_after_s

from client.tests.faulty import Answer, faulty_server, problem
from client.tests.runs import make_run

_NOW = datetime(2026, 11, 1, tzinfo=UTC)


def _settings(url: str, spool: Path, *, timeout_s: float = 10.0) -> ClientSettings:
    return ClientSettings(
        url=url, spool=spool / "spool.jsonl", first_pause_s=0, timeout_s=timeout_s
    )


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_failed_request_is_repeated_with_its_key(status: int, tmp_path: Path) -> None:
    script = (problem(status, "some"), problem(status, "some"), Answer(201))
    with faulty_server(*script) as server, Client(settings=_settings(server.url, tmp_path)) as c:
        answer = c.runs.upload(make_run("w"))

    keys = {headers["Idempotency-Key"] for _, _, headers, _ in server.requests}
    assert answer["created"] == 1
    assert len(server.requests) == 3
    assert len(keys) == 1


def test_failed_upload_of_a_file_is_repeated_with_its_key(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_text("workload,duration_seconds\nw,1\n")
    script = (problem(503, "some"), Answer(201))
    with faulty_server(*script) as server, Client(settings=_settings(server.url, tmp_path)) as c:
        c.runs.upload_file(file)

    [first, second] = [headers["Idempotency-Key"] for _, _, headers, _ in server.requests]
    assert first
    assert first == second


@pytest.mark.parametrize(
    "lost",
    [
        [Answer(502, b"<html>proxy</html>")],
        [Answer(silence=True)],
        [Answer(502, b"<html>proxy</html>"), problem(429, "some")],
    ],
)
def test_removal_whose_answer_was_lost_has_succeeded(lost: list[Answer], tmp_path: Path) -> None:
    with (
        faulty_server(*lost, problem(404, "not_found")) as server,
        Client(settings=_settings(server.url, tmp_path, timeout_s=0.5)) as client,
    ):
        client.runs.remove("run_1")

    assert {method for method, *_ in server.requests} == {"DELETE"}
    assert len(server.requests) == len(lost) + 1


@pytest.mark.parametrize(
    "script", [[problem(404, "not_found")], [problem(429, "some"), problem(404, "not_found")]]
)
def test_removal_of_what_never_was_is_refused(script: list[Answer], tmp_path: Path) -> None:
    with (
        faulty_server(*script) as server,
        Client(settings=_settings(server.url, tmp_path)) as client,
        pytest.raises(NotFoundError),
    ):
        client.runs.remove("run_1")


def test_what_is_read_and_is_not_there_is_refused_after_a_failure_too(tmp_path: Path) -> None:
    with (
        faulty_server(problem(502, "some"), problem(404, "not_found")) as server,
        Client(settings=_settings(server.url, tmp_path)) as client,
        pytest.raises(NotFoundError),
    ):
        client.runs.get("run_1")


def test_request_in_progress_is_repeated(tmp_path: Path) -> None:
    script = (problem(409, "in_progress"), Answer(201))
    with faulty_server(*script) as server, Client(settings=_settings(server.url, tmp_path)) as c:
        c.runs.upload(make_run("w"))

    assert len(server.requests) == 2


def test_refusal_is_not_repeated(tmp_path: Path) -> None:
    with (
        faulty_server(problem(409, "run_conflict")) as server,
        Client(settings=_settings(server.url, tmp_path)) as client,
        pytest.raises(Exception, match="Do so"),
    ):
        client.runs.upload(make_run("w"))

    assert len(server.requests) == 1


@pytest.mark.parametrize("pause", [{}, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}])
def test_attempts_end(pause: dict[str, str], tmp_path: Path) -> None:
    with (
        faulty_server(problem(503, "regressor_unavailable", **pause)) as server,
        Client(settings=_settings(server.url, tmp_path)) as client,
        pytest.raises(ServiceFailedError),
    ):
        client.workloads.get("w")

    assert len(server.requests) == 4


def test_silent_service_is_left_after_the_timeout(tmp_path: Path) -> None:
    with (
        faulty_server(Answer(silence=True)) as server,
        Client(settings=_settings(server.url, tmp_path, timeout_s=0.05)) as client,
        pytest.raises(UnreachableError, match="TRAINFARE_URL"),
    ):
        client.workloads.get("w")

    assert len(server.requests) == 4


def test_certificate_that_nobody_known_signed_is_told_with_what_to_do(tmp_path: Path) -> None:
    def distrust(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")

    with pytest.raises(httpx.ConnectError) as caught:
        httpx.Client(transport=httpx.MockTransport(distrust)).get("https://fare.example")

    assert "SSL_CERT_FILE" in str(unreachable("https://fare.example", caught.value))


def test_longer_wait_than_allowed_is_told_to_the_caller(tmp_path: Path) -> None:
    answer = problem(429, "quota_exceeded", **{"Retry-After": "3600"})
    with (
        faulty_server(answer) as server,
        Client(settings=_settings(server.url, tmp_path)) as client,
        pytest.raises(QuotaExceededError) as caught,
    ):
        client.workloads.get("w")

    assert len(server.requests) == 1
    assert caught.value.retry_after_s == 3600


@pytest.mark.parametrize("body", [b"<html>proxy</html>", b'{"error": "no"}'])
def test_answer_of_a_stranger_is_told_from_a_problem(body: bytes, tmp_path: Path) -> None:
    with (
        faulty_server(Answer(404, body)) as server,
        Client(settings=_settings(server.url, tmp_path)) as client,
        pytest.raises(UnreachableError, match="not as Trainfare"),
    ):
        client.workloads.get("w")


def test_good_answer_without_json_is_a_stranger_too(tmp_path: Path) -> None:
    with (
        faulty_server(Answer(200, b"hello")) as server,
        Client(settings=_settings(server.url, tmp_path)) as client,
        pytest.raises(UnreachableError, match="not as Trainfare"),
    ):
        client.workloads.get("w")


@given(seed=st.integers(0, 1000), first=st.floats(0.001, 10), attempts=st.integers(1, 12))
def test_pauses_grow_exponentially_with_jitter_up_to_the_longest(
    seed: int, first: float, attempts: int
) -> None:
    settings = ClientSettings(first_pause_s=first, longest_pause_s=5.0, attempts=attempts)
    retries = Retries(settings, random.Random(seed))

    pauses = [retries.pause_after_error(httpx.ReadTimeout("")) for _ in range(attempts)]

    assert pauses[-1] is None
    for number, pause in enumerate(pauses[:-1]):
        assert pause is not None
        assert 0 <= pause <= min(first * 2**number, 5.0)


@given(asked=st.integers(0, 30))
def test_pause_is_never_shorter_than_the_service_asked(asked: int) -> None:
    answer = httpx.Response(503, headers={"Retry-After": str(asked)}, content=b"{}")

    pause = Retries(ClientSettings(), random.Random(1)).pause_after(answer)

    assert pause is not None
    assert pause >= asked


def test_service_that_asks_for_no_pause_is_not_asked_by_all_at_once() -> None:
    answer = httpx.Response(503, headers={"Retry-After": "0"}, content=b"{}")

    pause = Retries(ClientSettings(), random.Random(1)).pause_after(answer)

    assert pause is not None
    assert pause > 0


def test_only_what_was_sent_may_have_succeeded() -> None:
    retries = Retries(ClientSettings())
    seen = []

    for error in (httpx.ConnectError, httpx.ConnectTimeout, httpx.ReadError, httpx.ConnectError):
        retries.pause_after_error(error(""))
        seen.append(retries.may_have_succeeded)

    assert seen == [False, False, True, True]


def test_retry_after_is_read_as_seconds_and_as_a_date() -> None:
    date = format_datetime(_NOW + timedelta(seconds=90))

    assert retry_after_s("12") == 12
    assert retry_after_s(date, _NOW) == 90
    assert retry_after_s(date.replace("+0000", "-0000"), _NOW) == 90
    assert retry_after_s(format_datetime(_NOW - timedelta(1)), _NOW) == 0
    assert retry_after_s(None) is None
    assert retry_after_s("next week") is None
