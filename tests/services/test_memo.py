"""Answers are remembered for as long as they hold."""

from datetime import timedelta
from decimal import Decimal

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.configurations import Configuration, Scenario, Work
from app.domain.errors import UnknownGpuError
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import Slug
from app.services.answering.answers import Answer, answer_all
from app.services.answering.memo import AnswerMemo
from app.services.served_regressors import ServedRegressor
from app.services.serving import RegressorCache
from app.services.wiring import Services
from tests.support.prices import NOW, make_book, make_price
from tests.support.regressors import fit, publish_regressor


def question(workers: int = 2, gpu_type: str = "T4") -> ForecastRequest:
    scenario = Scenario(Configuration(gpu_type=gpu_type, workers=workers), Work(1000.0))
    return ForecastRequest(Slug("fitted"), scenario)


class Door:
    """Asks through a memo and counts what was computed."""

    def __init__(self, served: ServedRegressor, size: int = 100) -> None:
        self.served, self.book, self.now = served, make_book(make_price()), NOW
        self.memo, self.computed = AnswerMemo(size), 0

    def ask(self, request: ForecastRequest) -> Answer:
        def compute() -> Answer:
            self.computed += 1
            return answer_all([request], self.served, self.book, self.now)[0]

        return self.memo.answer(request, self.served, self.book, self.now, compute)


@pytest.fixture
def door(services: Services) -> Door:
    publish_regressor(services)
    return Door(RegressorCache(services.context).get(DEFAULT_PROJECT, Slug("fitted")))


def test_same_question_is_computed_once(door: Door) -> None:
    first, second = door.ask(question()), door.ask(question())

    assert first is second
    assert door.computed == 1


def test_other_question_is_computed(door: Door) -> None:
    assert door.ask(question(2)) != door.ask(question(4))


def test_refusal_is_remembered_too(door: Door) -> None:
    answers = [door.ask(question(gpu_type="X9000")) for _ in range(2)]

    assert isinstance(answers[0], UnknownGpuError)
    assert door.computed == 1


def test_new_prices_day_or_regressor_make_a_new_answer(door: Door, services: Services) -> None:
    door.ask(question())

    door.book = make_book(make_price(price_per_hour=Decimal(9)))
    door.ask(question())
    door.now += timedelta(days=1)
    door.ask(question())
    fit(services, "fitted")
    cache = RegressorCache(services.context)
    door.served = cache.get(DEFAULT_PROJECT, Slug("fitted"))
    door.ask(question())

    assert door.computed == 4


def test_least_used_answers_leave_first(door: Door) -> None:
    small = Door(door.served, size=2)

    for workers in (1, 2, 1, 4, 1, 2):
        small.ask(question(workers))

    assert small.computed == 4
