"""Parameters that are numbers, asked as far away as numbers go."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.services.wiring import Services
from tests.support.regressors import fit
from tests.support.uploads import make_json_run, post_json

pytestmark = pytest.mark.lengthy

WORKLOAD = "resnet50"


@pytest.fixture
def flagged(client: TestClient, services: Services) -> TestClient:
    runs = [
        make_json_run(
            duration_seconds=800 / workers + 50 * flag,
            configuration={"workers": workers},
            parameters={"flag": flag},
        )
        for workers in (1, 2, 4, 8)
        for flag in (0, 1)
    ]
    post_json(client, runs)
    fit(services, WORKLOAD)
    return client


def ask(client: TestClient, flag: float) -> Any:
    return client.post("/v1/forecasts", json={"workload": WORKLOAD, "parameters": {"flag": flag}})


@pytest.mark.parametrize("flag", [1e3, 1e6, -1e15, 1e90])
def test_a_flag_is_answered_however_far_it_is_asked(flagged: TestClient, flag: float) -> None:
    answer = ask(flagged, flag)

    assert answer.status_code == 200, answer.text
    seconds = answer.json()["duration_seconds"]
    assert 0 < seconds["lower"] < seconds["median"] < seconds["upper"]


@pytest.mark.parametrize("flag", [1e91, -1e300])
def test_a_number_beyond_all_is_refused_by_name(flagged: TestClient, flag: float) -> None:
    path = f"/v1/workloads/{WORKLOAD}"
    asked = [
        ask(flagged, flag),
        flagged.get(f"{path}/forecast?workers=1,2&param.flag={flag}"),
        flagged.get(f"{path}/curve?over=workers&from=1&to=4&param.flag={flag}"),
        flagged.post(
            "/v1/recommendations", json={"workload": WORKLOAD, "parameters": {"flag": flag}}
        ),
    ]

    assert [answer.status_code for answer in asked] == [422] * len(asked)
    for answer in asked:
        [fault] = answer.json()["errors"]
        assert fault["field"] == "param.flag"
        assert "1e+90" in fault["remedy"]


def test_a_number_beyond_all_leaves_the_rest_of_a_batch(flagged: TestClient) -> None:
    requests = [{"parameters": {"flag": flag}} for flag in (0.0, 1e300, 1.0)]

    answer = flagged.post(
        "/v1/forecasts:batch", json={"defaults": {"workload": WORKLOAD}, "requests": requests}
    ).json()

    assert answer["failed"] == 1
    assert answer["forecasts"][1]["problem"]["errors"][0]["field"] == "param.flag"


@pytest.mark.parametrize("part", ["target", "candidates"])
def test_a_number_beyond_all_is_refused_before_the_first_fit(client: TestClient, part: str) -> None:
    post_json(client, [make_json_run(parameters={"flag": 1})])
    asked = {"configuration": {"workers": 2}, "parameters": {"flag": 1}}
    beyond = {**asked, "parameters": {"flag": 1e300}}
    plan = {"target": asked, "candidates": [asked]}

    answer = client.post(
        f"/v1/workloads/{WORKLOAD}/profiling-plans",
        json={**plan, part: [beyond] if part == "candidates" else beyond},
    )

    assert answer.status_code == 422, answer.text
    [fault] = answer.json()["errors"]
    assert fault["field"] == "param.flag"
    assert "1e+90" in fault["remedy"]
