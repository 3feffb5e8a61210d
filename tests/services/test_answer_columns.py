"""Answers in columns: one question alone is answered as among many, and only what is asked."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import asdict, is_dataclass, replace
from decimal import Decimal
from itertools import chain, product

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.alike import column_of
from app.domain.billing import Serverless
from app.domain.configurations import Configuration, Purchase, Scenario, Work
from app.domain.exchange_rates import ExchangeRate
from app.domain.forecasts import Forecast, ForecastRequest, SpotTerms
from app.domain.identifiers import Slug
from app.domain.prices import ANY_PRICE, PriceQuery
from app.services.answering import columns, rows
from app.services.answering.answers import answer_all
from app.services.answering.columns import AnswerColumns
from app.services.served_regressors import ServedRegressor
from app.services.serving import RegressorCache
from app.services.wiring import Services
from tests.support.prices import NOW, make_book, make_price, on_t4
from tests.support.regressors import publish_regressor


@pytest.fixture
def served(services: Services) -> ServedRegressor:
    publish_regressor(services)
    return RegressorCache(services.context).get(DEFAULT_PROJECT, Slug("fitted"))


def questions() -> list[ForecastRequest]:
    gpus = ("T4", "A100", "V100-16GB", None)
    purchases = (None, Purchase.SPOT)
    return [
        ForecastRequest(
            Slug("fitted"),
            Scenario(Configuration(gpu, workers=workers, purchase=purchase), Work(size)),
            confidence=0.8 if workers == 2 else 0.9,
            deadline_s=100.0 if size == 1000.0 else None,
            explain=workers == 64,
            spot=SpotTerms(restart_s=60.0) if workers == 3 else SpotTerms(),
        )
        for gpu, workers, size, purchase in product(
            gpus, (1, 2, 3, 64), (None, 1000.0, 1e7), purchases
        )
    ]


def leaves(value: object) -> Iterator[object]:
    """Yield everything that an answer holds, in order; a refusal by its words."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, Mapping):
        yield from value
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from leaves(each)
    else:
        yield str(value) if isinstance(value, Exception) else value


def test_members_of_questions_are_read_for_all_rows_at_once(
    served: ServedRegressor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Counter[str] = Counter()

    def counted(requests: Sequence[ForecastRequest], name: str) -> Sequence[object]:
        reads[name] += 1
        return column_of(requests, name)

    for module in (columns, rows):
        monkeypatch.setattr(module, "column_of", counted, raising=False)
    answer_all(questions()[:4], served, make_book(make_price()), NOW)
    few = Counter(reads)
    reads.clear()

    answer_all(questions(), served, make_book(make_price()), NOW)

    assert few["workload"] == 1
    assert reads == few


def test_a_question_alone_is_answered_as_among_many(served: ServedRegressor) -> None:
    book, asked = make_book(make_price()), questions()

    together = answer_all(asked, served, book, NOW)

    for request, answer in zip(asked, together, strict=True):
        (alone,) = answer_all([request], served, book, NOW)
        found, expected = list(leaves(alone)), list(leaves(answer))
        numbers = [each for each in found if isinstance(each, float)]
        assert numbers == pytest.approx([x for x in expected if isinstance(x, float)], rel=1e-12)
        assert [each for each in found if not isinstance(each, float)] == [
            each for each in expected if not isinstance(each, float)
        ]


def test_what_is_not_asked_for_is_not_computed(served: ServedRegressor) -> None:
    requests = [each for each in questions() if each.scenario.configuration.gpu_type == "T4"]
    calm = [each for each in requests if each.scenario.configuration.purchase is None]
    scenarios = [each.scenario for each in calm]
    columns = AnswerColumns(calm, scenarios, served, make_book(), NOW)

    assert len(columns.figures.durations) == len(calm)
    assert not {"offers", "bills", "support", "chances_to_fit", "warnings"} & vars(columns).keys()


def test_each_question_is_bought_where_its_own_duration_costs_least(
    served: ServedRegressor,
) -> None:
    terms = Serverless(Decimal(16), Decimal("0.0000166667"))
    book = make_book(
        make_price(instance_type="function", serverless=terms, price_per_hour=terms.per_hour),
        make_price(price_per_hour=Decimal("0.80"), gpu_count=1, billing_step_s=3600),
        rates=[ExchangeRate("USD", "EUR", Decimal("0.5"), NOW, "test")],
    )
    asked = [
        ForecastRequest(Slug("fitted"), Scenario(on_t4(), Work(size)), pricing=pricing)
        for pricing in (ANY_PRICE, PriceQuery(purchase=Purchase.ON_DEMAND))
        for size in (20.0, 40_000.0)
    ]

    answers = [
        answer_all(requests, replace(served, currency="EUR"), book, NOW)
        for requests in (asked[:2], asked)
    ]

    costs = [each.cost for each in chain.from_iterable(answers) if isinstance(each, Forecast)]
    bought = [(each.price.instance_type, each.currency) for each in costs if each is not None]
    assert bought == [("function", "EUR"), ("box.4", "EUR")] * 3


@pytest.mark.parametrize("n_factory", [0, 1])
def test_factory_prior_is_told_where_it_contributed(
    served: ServedRegressor, n_factory: int
) -> None:
    portfolio = copy(served.portfolio)
    assert portfolio.report.pooling is not None
    pooling = replace(portfolio.report.pooling, factory=n_factory)
    portfolio.report = replace(portfolio.report, pooling=pooling)
    request = ForecastRequest(Slug("fitted"), Scenario(on_t4(), Work(1000.0)))

    (answer,) = answer_all([request], replace(served, portfolio=portfolio), make_book(), NOW)

    assert isinstance(answer, Forecast)
    assert answer.support.factory_prior is (n_factory > 0)
