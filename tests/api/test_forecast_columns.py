"""Forecasts written in columns: each text is the document of its row."""

from itertools import chain
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.batches.forecasts import forecast_texts
from app.api.documents.forecasts import FORECAST_MEMBERS, forecast_document
from app.api.requests.forecasts import read_forecasts
from app.domain.access import DEFAULT_PROJECT
from app.domain.errors import DomainError
from app.domain.fits import FitRequest
from app.domain.forecasts import ForecastRequest
from app.services.answering.columns import AnswerColumns
from app.services.answering.rows import Answered
from app.services.wiring import Services
from tests.support.questions import documents
from tests.support.regressors import publish_regressor

pytestmark = pytest.mark.lengthy


@pytest.fixture
def published(services: Services) -> Services:
    publish_regressor(services)
    # Its forecasts consist of several terms, the largest of which differs between questions.
    publish_regressor(services, "other", FitRequest(regressors=("scaling_law",)))
    return services


def answered(services: Services, asked: list[dict[str, Any]]) -> list[Answered]:
    requests = [each for each in read_forecasts(asked) if isinstance(each, ForecastRequest)]
    parts = services.forecasts.ask_parts(DEFAULT_PROJECT, requests)
    answers = chain.from_iterable(part.answers for part in parts)
    return [each for each in answers if not isinstance(each, DomainError)]


@settings(max_examples=80)
@given(asked=st.lists(documents, min_size=1, max_size=8), times=st.sampled_from([1, 10, 64]))
def test_each_text_is_the_document_of_its_row(
    published: Services, asked: list[dict[str, Any]], times: int
) -> None:
    # Few bills are written one by one, many by columns.
    answers, now = answered(published, asked * times), published.context.now()

    texts = forecast_texts(answers, now, FORECAST_MEMBERS)

    for answer, text in zip(answers, texts, strict=True):
        expected = orjson.dumps(forecast_document(answer, now))
        assert text == expected


def test_row_without_an_explanation_stands_beside_one_with_it(
    published: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [{"workload": "other", "configuration": {"workers": workers}} for workers in (1, 2)]
    answers, now = answered(published, asked), published.context.now()
    ranked = ["a", "b"], np.array([[0, 1], [1, 0]]), np.array([[0.0, 0.0], [0.75, 0.25]])
    monkeypatch.setattr(AnswerColumns, "ranked_shares", property(lambda _: ranked))

    texts = forecast_texts(answers, now, ["explanation"])

    shares = [{"term": "b", "share": 0.75}, {"term": "a", "share": 0.25}]
    assert list(map(orjson.loads, texts)) == [{"explanation": []}, {"explanation": shares}]


def test_wanted_members_alone_are_written(published: Services) -> None:
    [answer] = answered(published, [{"workload": "fitted", "configuration": {"workers": 2}}])

    [text] = forecast_texts([answer], published.context.now(), ["basis", "workload"])

    assert orjson.loads(text) == {"basis": answer.basis, "workload": "fitted"}
    assert forecast_texts([answer], published.context.now(), []) == [b"{}"]
