"""Single questions that are answered together: each is told what it would be told alone."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from app.api.encoded.cache import with_identifier
from app.api.shortcut.joint_answers import JointAnswer, answer_together
from app.domain.access import DEFAULT_PROJECT
from app.domain.ages import day_after
from app.domain.configurations import Configuration, Scenario, Work
from app.domain.errors import InvalidRequestError, UnknownGpuError
from app.services.wiring import Services
from tests.support.queries import recorded_queries
from tests.support.regressors import publish_regressor

QUESTION: dict[str, Any] = {
    "workload": "fitted",
    "configuration": {"gpu_type": "T4", "workers": 4},
    "work": {"dataset_size": 1000},
    "parameters": {"precision": "fp16"},
    "record": False,
}
ALIKE = [{**QUESTION, "work": {"dataset_size": size}} for size in (1000, 2000.5, 3e6)]
VARIED = [
    {
        "work": {"epochs": epochs, "batch_size": None},
        "configuration": {"workers": workers, "gpu_type": gpu, "nodes": nodes, "purchase": bought},
        "parameters": {"precision": precision},
        "workload": "fitted",
        "deadline_s": 100.5 * workers,
        "budget": "7.25",
        "confidence": 0.5 + workers / 100,
        "explain": workers == 2,
        "record": False,
    }
    for workers, epochs, gpu, nodes, bought, precision in [
        (1, 3, "Tesla T4", None, None, "fp16"),
        (2, None, "V100-16GB", 1, "spot", "bf16"),
        (8, 0.5, None, 2, "on_demand", "fp16"),
        (2, 1e9, "T4", None, None, "fp32"),
    ]
]
MACHINES = [
    {**QUESTION, "configuration": {"instance_type": name, "workers": workers}, "parameters": {}}
    for name, workers in [("g4dn.xlarge", 1), ("g4dn.12xlarge", 4), ("p3.2xlarge", 2), (None, 1)]
]
NUMBERED = [{**QUESTION, "parameters": {"precision": value}} for value in (16, 32.5)]
UNLIKE = [
    {**QUESTION, "configuration": {"gpu_type": "V100-16GB", "workers": 4096}},
    {**QUESTION, "workload": "other", "confidence": 0.5},
    {"workload": "fitted", "configuration": {"workers": 2}, "record": False},
    {**QUESTION, "pricing": {"price_per_hour": "3.06"}, "budget": "5"},
    {**QUESTION, "configuration": {"gpu_type": "T4", "workers": 1, "purchase": "spot"}},
    {**QUESTION, "explain": True, "parameters": {"precision": "bf16 ü"}},
]


@pytest.fixture
def published(services: Services) -> Services:
    for workload in ("fitted", "other"):
        publish_regressor(services, workload=workload)
    return services


@pytest.mark.parametrize("asked", [ALIKE, UNLIKE, ALIKE[:1], VARIED, MACHINES, NUMBERED])
def test_each_is_answered_in_the_bytes_that_it_is_answered_by_alone(
    published: Services, client: TestClient, asked: list[dict[str, Any]]
) -> None:
    alone = [client.post("/v1/forecasts", json=each).content for each in asked]

    together = answer_together(published.forecasts, DEFAULT_PROJECT, asked)

    answers = [each for each in together if isinstance(each, JointAnswer)]
    assert [with_identifier(None, each.rest) for each in answers] == alone


@pytest.mark.parametrize("asked", [ALIKE, UNLIKE, VARIED, MACHINES, NUMBERED])
def test_each_has_the_digest_of_its_scenario(
    published: Services, client: TestClient, asked: list[dict[str, Any]]
) -> None:
    for each in asked:
        client.post("/v1/forecasts", json=each)

    together = answer_together(published.forecasts, DEFAULT_PROJECT, asked)

    answered = [each.answered for each in together if isinstance(each, JointAnswer)]
    assert len(answered) == len(asked)
    assert [each.scenario_sha256 for each in answered] == [
        each.scenario.digest() for each in answered
    ]


def test_digest_is_that_of_earlier_releases() -> None:
    parameters: dict[str, float | str] = {"layers": 24, "a'b\"\\": "x, 'ü", "b": 1.5}
    asked = Scenario(Configuration("T4", provider="aws", nodes=2, workers=8), Work(1000, 256))

    found = replace(asked, parameters=parameters).digest()

    assert found == "7345dd4b85b11b0140cdcd04ed54ba83764459b24094d2145918d1890075d28b"


def test_what_is_no_question_or_has_no_answer_is_refused_beside_the_others(
    published: Services, client: TestClient
) -> None:
    refused: list[Any] = [
        {**QUESTION, "configuration": {"workers": -1}},
        {**QUESTION, "configuration": {"gpu_type": "no such", "workers": 1}},
        [],
    ]
    client.post("/v1/forecasts", json=QUESTION)

    answers = answer_together(published.forecasts, DEFAULT_PROJECT, [QUESTION, *refused])

    kinds = [JointAnswer, InvalidRequestError, UnknownGpuError, InvalidRequestError]
    assert list(map(type, answers)) == kinds


def test_an_unknown_gpu_among_alike_questions_is_refused_beside_the_others(
    published: Services, client: TestClient
) -> None:
    client.post("/v1/forecasts", json=QUESTION)
    questions = [
        {**QUESTION, "configuration": {"gpu_type": name, "workers": 2}}
        for name in ("T4", "no such", "V100-16GB")
    ]

    answers = answer_together(published.forecasts, DEFAULT_PROJECT, questions)

    assert list(map(type, answers)) == [JointAnswer, UnknownGpuError, JointAnswer]


def test_what_is_not_in_memory_is_left_to_others_without_asking_the_database(
    published: Services, client: TestClient
) -> None:
    client.post("/v1/forecasts", json=QUESTION)
    asked = [QUESTION, {**QUESTION, "workload": "other"}, {**QUESTION, "regressor_version": 2}]

    with recorded_queries(published.context.database) as queries:
        answers = answer_together(published.forecasts, DEFAULT_PROJECT, asked)

    assert [answer is None for answer in answers] == [False, True, True]
    assert not queries
    assert answer_together(published.forecasts, DEFAULT_PROJECT, []) == []


def test_each_tells_what_it_rests_on_and_until_when_it_holds(
    published: Services, client: TestClient
) -> None:
    asked = [*UNLIKE[2:], *ALIKE]
    for each in asked:
        client.post("/v1/forecasts", json=each)

    answers = answer_together(published.forecasts, DEFAULT_PROJECT, asked)

    now = published.forecasts.now()
    for answer in answers:
        assert isinstance(answer, JointAnswer)
        assert answer.until == day_after(now)
        assert published.forecasts.holds(answer.grounds, DEFAULT_PROJECT, now)
