"""Jobs under way through the door: progress, elapsed time, past segments, deadlines."""

from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.domain.access import DEFAULT_PROJECT, Principal, Scope
from app.domain.identifiers import Slug
from app.services.serving import RegressorCache
from app.services.wiring import Services
from tests.support.clock import FakeClock
from tests.support.overtaking import after_first
from tests.support.regressors import fit, law_seconds, publish_regressor

WHOLE = law_seconds(2, 4000.0)
JOB: dict[str, Any] = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 2},
    "work": {"dataset_size": 4000},
    "parameters": {"precision": "fp16"},
}


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    return services


def ask(client: TestClient, **changes: Any) -> dict[str, Any]:
    answer = client.post("/v1/forecasts:remaining", json={**JOB, **changes})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def median(document: dict[str, Any]) -> float:
    value: float = document["remaining_seconds"]["median"]
    return value


def width(document: dict[str, Any]) -> float:
    left = document["remaining_seconds"]
    return float(left["upper"] / left["lower"])


def test_job_that_did_not_begin_takes_what_is_forecast(
    client: TestClient, published: Services
) -> None:
    forecast = client.post("/v1/forecasts", json=JOB).json()["duration_seconds"]

    answer = ask(client)

    for name in ("median", "lower", "upper", "confidence"):
        assert answer["remaining_seconds"][name] == pytest.approx(forecast[name], rel=1e-5)
    assert answer["observed_weight"] == 0


def test_observed_rate_wins_as_the_job_goes_on(client: TestClient, published: Services) -> None:
    early, late = (
        ask(client, progress=share, elapsed_s=share * 1.5 * WHOLE) for share in (0.01, 0.9)
    )

    assert early["observed_weight"] < late["observed_weight"]
    assert late["ratio"] == pytest.approx(1.5, rel=0.03)
    assert median(late) == pytest.approx(0.15 * WHOLE, rel=0.2)
    assert late["total_seconds"]["median"] == pytest.approx(1.5 * WHOLE, rel=0.03)


def test_job_that_goes_quite_differently_rests_on_what_was_seen(
    client: TestClient, published: Services
) -> None:
    usual, strange = (ask(client, progress=0.4, elapsed_s=0.4 * pace * WHOLE) for pace in (1, 4))

    assert usual["observed_weight"] < 0.5
    assert strange["ratio"] == pytest.approx(4, rel=0.05)
    assert strange["observed_weight"] > 0.95


def test_progress_without_time_scales_the_forecast(client: TestClient, published: Services) -> None:
    answer = ask(client, progress=0.75)

    assert median(answer) == pytest.approx(median(ask(client)) / 4, rel=1e-6)


def test_time_without_progress_says_only_that_the_job_takes_longer(
    client: TestClient, published: Services
) -> None:
    totals = [
        ask(client, elapsed_s=share * WHOLE)["total_seconds"]["median"]
        for share in (0.1, 0.9, 1.5, 3.0)
    ]

    assert totals == sorted(totals)
    assert totals[0] == pytest.approx(WHOLE, rel=0.05)
    assert totals[-1] > 3.0 * WHOLE


def test_bounds_are_nested(client: TestClient, published: Services) -> None:
    seen = {"progress": 0.3, "elapsed_s": 0.5 * WHOLE}

    inner, outer = (
        ask(client, **seen, confidence=level)["remaining_seconds"] for level in (0.5, 0.95)
    )

    assert outer["lower"] < inner["lower"] < inner["median"] < inner["upper"] < outer["upper"]
    assert inner["median"] == outer["median"]


def test_segment_on_another_configuration_tells_the_rate_of_this_one(
    client: TestClient, published: Services
) -> None:
    slow = 1.4
    there = 0.5 * slow * law_seconds(4, 4000.0)
    segments = [
        {"configuration": {"gpu_type": "T4", "workers": 4}, "elapsed_s": there, "progress": 0.5}
    ]

    resumed = ask(client, progress=0.5, elapsed_s=there, segments=segments, rate_variation=0.01)
    further = ask(
        client,
        progress=0.75,
        elapsed_s=there + 0.25 * slow * WHOLE,
        segments=segments,
        rate_variation=0.01,
    )

    assert resumed["ratio"] > 1.2
    assert median(resumed) == pytest.approx(0.5 * resumed["ratio"] * median(ask(client)), rel=0.01)
    assert median(further) == pytest.approx(0.25 * slow * WHOLE, rel=0.05)
    for bound in ("median", "lower", "upper"):
        left = further["remaining_seconds"][bound]
        assert further["total_seconds"][bound] == pytest.approx(there + 0.25 * slow * WHOLE + left)
    assert width(further) < width(ask(client, progress=0.75))


@pytest.mark.parametrize(
    "bought", [{}, {"purchase": "spot"}, {"provider": "aws", "region": "us-east-1"}]
)
def test_segment_of_the_same_configuration_is_the_job_itself(
    client: TestClient, published: Services, bought: dict[str, str]
) -> None:
    whole = ask(client, progress=0.6, elapsed_s=0.9 * WHOLE)
    same = {**JOB["configuration"], **bought}
    segments = [{"configuration": same, "elapsed_s": 0.5 * WHOLE, "progress": 0.4}]

    parts = ask(client, progress=0.6, elapsed_s=0.9 * WHOLE, segments=segments)

    assert parts == whole


def test_segments_without_any_progress_of_the_whole_still_count(
    client: TestClient, published: Services
) -> None:
    segments = [{"configuration": JOB["configuration"], "elapsed_s": 0.5 * WHOLE, "progress": 0.5}]

    answer = ask(client, segments=segments)

    assert median(answer) == pytest.approx(0.5 * WHOLE, rel=0.05)
    assert width(answer) < width(ask(client, progress=0.5, elapsed_s=None)) * 1.5


@pytest.mark.parametrize("workers", [4, 2])
def test_past_segments_are_observed_where_the_present_progress_is_unknown(
    client: TestClient, published: Services, workers: int
) -> None:
    there = 0.5 * 1.4 * law_seconds(workers, 4000.0)
    before = {"gpu_type": "T4", "workers": workers}
    segments = [{"configuration": before, "elapsed_s": there, "progress": 0.5}]

    answer = ask(client, elapsed_s=there + 60, segments=segments, rate_variation=0.01)

    assert answer["ratio"] > 1.2
    assert median(answer) == pytest.approx(0.5 * answer["ratio"] * WHOLE - 60, rel=0.05)


def test_deadline_is_judged_from_now(
    client: TestClient, published: Services, clock: FakeClock
) -> None:
    def chance(seconds: float) -> float:
        deadline = (clock() + timedelta(seconds=seconds)).isoformat()
        probability: float = ask(client, progress=0.5, elapsed_s=0.5 * WHOLE, deadline=deadline)[
            "deadline_probability"
        ]
        return probability

    assert chance(0.9 * WHOLE) > 0.95
    assert chance(0.1 * WHOLE) < 0.05
    assert chance(-60) == 0


def test_far_end_has_no_instant(client: TestClient, published: Services) -> None:
    answer = ask(client, progress=1e-9, elapsed_s=1e12)

    assert answer["ends_at"] is None
    assert median(answer) > 1e10


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"progress": 0.3}, "progress"),
        ({"progress": 0.6, "elapsed_s": 10}, "elapsed_s"),
    ],
)
def test_segments_beyond_the_whole_are_refused(
    client: TestClient, published: Services, changes: dict[str, Any], field: str
) -> None:
    segments = [{"configuration": {"workers": 4}, "elapsed_s": 100, "progress": 0.5}]

    answer = client.post("/v1/forecasts:remaining", json={**JOB, "segments": segments, **changes})

    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == field


def test_segments_that_did_everything_are_refused(client: TestClient, published: Services) -> None:
    segments = [{"configuration": {"workers": 4}, "elapsed_s": 100, "progress": 0.5}] * 2

    answer = client.post("/v1/forecasts:remaining", json={**JOB, "segments": segments})

    assert answer.status_code == 422


def test_job_that_cannot_be_forecast_is_refused_with_its_code(
    client: TestClient, published: Services
) -> None:
    unknown = client.post("/v1/forecasts:remaining", json={**JOB, "workload": "nobody"})
    wrong = client.post(
        "/v1/forecasts:remaining", json={**JOB, "configuration": {"gpu_type": "H1000X"}}
    )

    assert (unknown.status_code, unknown.json()["code"]) == (404, "unknown_workload")
    assert (wrong.status_code, wrong.json()["code"]) == (422, "unknown_gpu")


def test_sentences_read_well(client: TestClient, published: Services, clock: FakeClock) -> None:
    body = {
        **JOB,
        "progress": 0.5,
        "elapsed_s": WHOLE,
        "deadline": (clock() + timedelta(days=1)).isoformat(),
    }

    answer = client.post("/v1/forecasts:remaining", json=body, headers={"Accept": "text/plain"})

    lines = answer.text.splitlines()
    assert lines[0].startswith("fitted: about ")
    assert "times the forecast of" in lines[1]
    assert lines[2].startswith("The answer rests ")
    assert lines[3].startswith("It ends about 20")
    assert lines[4].startswith("It keeps the deadline with probability ")


def test_sentences_compare_a_resized_job_with_the_forecast_for_its_present_configuration(
    client: TestClient, published: Services
) -> None:
    past = {"configuration": {"gpu_type": "T4", "workers": 1}, "progress": 0.4, "elapsed_s": WHOLE}
    body = {**JOB, "progress": 0.5, "elapsed_s": 1.05 * WHOLE, "segments": [past]}

    answer = client.post("/v1/forecasts:remaining", json=body, headers={"Accept": "text/plain"})

    pace = answer.text.splitlines()[1].partition("; ")[2]
    assert pace.startswith("on this configuration alone ")


def test_progress_in_no_time_only_scales_the_forecast(
    client: TestClient, published: Services
) -> None:
    assert median(ask(client, progress=0.5, elapsed_s=0)) == median(ask(client, progress=0.5))
    past = [{"configuration": {"gpu_type": "T4", "workers": 4}, "progress": 0.25, "elapsed_s": 100}]
    segmented = {"segments": past, "progress": 0.5}
    assert median(ask(client, **segmented, elapsed_s=100)) == median(ask(client, **segmented))


def test_segment_whose_names_mean_the_same_configuration_is_the_job_itself(
    client: TestClient, services: Services
) -> None:
    runs = [
        {
            "workload": "dense",
            "duration_seconds": law_seconds(workers, size),
            "configuration": {"gpu_type": "T4", "workers": workers, "nodes": workers // 4},
            "work": {"dataset_size": size},
        }
        for workers in (4, 8, 16)
        for size in (1000.0, 2000.0)
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, "dense")
    told: dict[str, Any] = {"gpu_type": "T4", "workers": 8, "nodes": 2}
    is_left_open: dict[str, Any] = {"gpu_type": "Tesla T4", "workers": 8}
    job = {"workload": "dense", "parameters": {}, "progress": 0.5, "elapsed_s": 900}

    answers = [
        ask(
            client,
            **job,
            configuration=present,
            segments=[{"configuration": past, "progress": 0.25, "elapsed_s": 450}],
        )
        for present, past in ((told, told), (told, is_left_open), (is_left_open, told))
    ]

    assert (
        answers[0]["remaining_seconds"]
        == ask(client, **job, configuration=told)["remaining_seconds"]
    )
    assert answers[0] == answers[1] == answers[2]


def test_answer_rests_on_one_version_whichever_is_published_meanwhile(
    client: TestClient, published: Services, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [{**JOB, "duration_seconds": 10 * WHOLE}] * 12
    assert client.post("/v1/runs", json=slow).status_code == 201
    fit(published, "fitted")
    before = ask(client, regressor_version=1)
    _publish(published, 1)
    clock.advance(60)

    def publish_the_slow_one() -> None:
        _publish(published, 2)
        clock.advance(60)

    after_first(monkeypatch, RegressorCache, "get", publish_the_slow_one)
    answer = ask(client)

    assert answer["regressor_version"] == 1
    assert answer["forecast_seconds"] == before["forecast_seconds"]


def _publish(services: Services, version: int) -> None:
    caller = Principal(DEFAULT_PROJECT, frozenset(Scope))
    services.regressors.publish(caller, Slug("fitted"), version)
