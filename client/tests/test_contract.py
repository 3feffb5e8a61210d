"""Every method of both clients against the real service over HTTP."""

import asyncio
import inspect
import math
import operator
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from trainfare_client import AsyncClient, Client, ClientSettings, documents
from trainfare_client.errors import BadNumberError, InvalidRowsError

from client.tests.calls import Story
from client.tests.runs import make_run
from client.tests.typed import mismatches

pytestmark = pytest.mark.lengthy

_COUNTED = re.compile(r'requests_total\{method="(?P<method>\w+)",route="(?P<route>[^"]+)"')


async def _tell_asynchronously(settings: ClientSettings, folder: Path) -> dict[str, Any]:
    async with AsyncClient(settings=settings) as client:
        return await Story(client, "told-asynchronously", folder).call_all()


async def _tell_synchronously(settings: ClientSettings, folder: Path) -> dict[str, Any]:
    with Client(settings=settings) as client:
        return await Story(client, "told-synchronously", folder).call_all()


@pytest.fixture(scope="module", params=[_tell_synchronously, _tell_asynchronously])
def heard(
    request: pytest.FixtureRequest, service_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("story")
    settings = ClientSettings(url=service_url, spool=folder / "spool.jsonl")
    return asyncio.run(request.param(settings, folder))


def _methods(client: object) -> set[str]:
    resources = {
        name: value
        for name, value in vars(client).items()
        if not name.startswith("_") and name != "settings"
    }
    own = {
        name
        for name, _ in inspect.getmembers(client, inspect.isroutine)
        if not name.startswith("_") and name not in {"close", "aclose"}
    }
    return own | {
        f"{resource}.{name}"
        for resource, value in resources.items()
        for name, _ in inspect.getmembers(value, inspect.isroutine)
        if not name.startswith("_")
    }


def test_every_method_is_called(heard: dict[str, Any]) -> None:
    assert set(heard) == _methods(Client())
    assert set(heard) == _methods(AsyncClient())


def test_every_route_of_the_contract_is_asked(heard: dict[str, Any], service_url: str) -> None:
    document = heard["openapi"]
    routes = {
        (method.upper(), path)
        for path, methods in document["paths"].items()
        for method in methods
        if path.startswith("/v1/")
    }

    matches = _COUNTED.finditer(httpx.get(f"{service_url}/metrics").text)
    called = {(match["method"], re.sub(r":\w+}", "}", match["route"])) for match in matches}

    assert routes - called == set()


def test_answers_are_of_their_types(heard: dict[str, Any]) -> None:
    """A method's annotation names the document, alone or in a list, that it answers with."""
    client, checked = Client(), 0
    for name, answer in heard.items():
        annotation = inspect.signature(operator.attrgetter(name)(client)).return_annotation
        kind = getattr(documents, re.split(r"[\[\] |]+", annotation.rstrip("]"))[-1], None)
        for item in answer if isinstance(answer, list) else [answer]:
            if kind is not None and item is not None:
                assert list(mismatches(item, kind, name)) == []
                checked += 1

    assert checked > len(heard) / 2


def test_profile_arrives_in_several_requests_with_one_answer(heard: dict[str, Any]) -> None:
    answer = heard["runs.upload_many"]

    assert answer["created"] == 12
    assert [run["row"] for run in answer["runs"]] == list(range(1, 13))


def test_bad_row_of_a_later_request_is_numbered_from_the_first_one(
    client: Client, workload: str
) -> None:
    good = [make_run(workload) for _ in range(4)]

    with pytest.raises(InvalidRowsError, match="row 5") as refused:
        client.runs.upload_many(
            [*good, make_run(workload, duration_seconds=-1)], rows_per_request=2
        )
    with pytest.raises(BadNumberError, match="Row 5: "):
        client.runs.upload_many(
            [*good, make_run(workload, duration_seconds=math.nan)], rows_per_request=2
        )

    assert {fault["row"] for fault in refused.value.errors} == {5}


def test_skipped_rows_and_duplicates_of_all_requests_are_in_one_answer(
    client: Client, workload: str
) -> None:
    good, bad = make_run(workload, external_id="a"), make_run(workload, duration_seconds=-1)

    answer = client.runs.upload_many([good, bad, good, bad], skip_invalid=True, rows_per_request=2)

    assert (answer["created"], answer["duplicates"], answer["invalid_count"]) == (1, 1, 2)
    assert [fault["row"] for fault in answer["invalid"]] == [2, 4]
    assert not answer["dry_run"]
    assert [run["row"] for run in answer["runs"] or ()] == [1, 3]


def test_no_runs_are_listed_where_one_request_was_too_long_for_a_list(
    client: Client, workload: str
) -> None:
    answer = client.runs.upload_many([make_run(workload)] * 1002, rows_per_request=1001)

    assert (answer["created"], answer["runs"]) == (1002, None)


@pytest.mark.parametrize("rows", [0, -1])
def test_requests_without_rows_are_refused(settings: ClientSettings, rows: int) -> None:
    with Client(settings=settings) as client, pytest.raises(ValueError, match=f"not {rows}"):
        client.runs.upload_many([make_run("unsent")], rows_per_request=rows)


def test_lists_are_read_beyond_their_first_page(heard: dict[str, Any]) -> None:
    assert len(heard["runs.all"]) == 14
    assert len({run["run_id"] for run in heard["runs.all"]}) == 14


def test_fit_is_followed_by_events_to_its_end(heard: dict[str, Any]) -> None:
    states = [fit["state"] for fit in heard["fits.events"]]

    assert states[-1] == "succeeded"
    assert heard["fits.wait"]["regressor_version"] == 1
    assert heard["fits.cancel"]["state"] == "succeeded"


def test_questions_are_answered(heard: dict[str, Any]) -> None:
    forecast = heard["forecasts.make"]

    assert forecast["duration_seconds"]["confidence"] == 0.8
    assert heard["forecasts.get"]["forecast_id"] == forecast["forecast_id"]
    assert [entry["ref"] for entry in heard["forecasts.batch"]["forecasts"]] == [1, 2]
    assert heard["forecasts.batch"]["failed"] == 1
    assert len(heard["forecasts.what_if"]) == 3
    assert heard["forecasts.curve"]["over"] == "workers"
    assert heard["forecasts.recommend"]["recommended"] is not None


def test_jobs_and_reports_are_answered(heard: dict[str, Any]) -> None:
    assert heard["forecasts.remaining"]["remaining_seconds"]["median"] > 0
    assert heard["schedules.rank"]["ranked"][0]["ref"] == "a"
    assert (
        heard["schedules.rank"]["ranked"][0]["warnings"] == heard["forecasts.remaining"]["warnings"]
    )
    assert heard["schedules.allocate"]["allocated"][0]["ref"] == "a"
    assert heard["schedules.capacity"]["demand"][0]["gpu_type"] == "T4"
    assert heard["ci.report"]["verdict"] in {"pass", "warn", "fail", "insufficient_data"}
    assert heard["ci.all"][0]["report_id"] == heard["ci.get"]["report_id"]
    assert heard["ci.acknowledge"]["acknowledged"]["author"] == "me"
    assert heard["ci.promote"]["promoted_at"] is not None


def test_own_price_is_listed_until_it_is_withdrawn(heard: dict[str, Any]) -> None:
    assert heard["prices.add"]["created"] == 1
    assert heard["prices.all"][0]["price_per_hour"] == "0.50"
    assert heard["prices.withdraw"] is None


def test_rest_of_the_service_answers(heard: dict[str, Any]) -> None:
    assert heard["is_ready"] is True
    assert heard["gpus.get"]["gpu_type"] == "A100-40GB"
    assert heard["runs.change"]["labels"] == {"a": "b"}
    assert heard["runs.assessment"]["verdict"] in {"as_expected", "slower", "faster", "unknown"}
    assert heard["workloads.plan_profiling"]["runs"]
    assert heard["flush"].created == 0
