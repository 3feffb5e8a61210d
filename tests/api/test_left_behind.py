"""What answers leave behind: nothing that only the garbage collector could free."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from app.api.encoded.cache import EncodedAnswers
from app.api.encoded.forecasts import answer_from_memory
from app.api.requests.forecasts import read_forecasts
from app.api.shortcut.joint_answers import answer_together
from app.domain.access import DEFAULT_PROJECT
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.services.wiring import Services
from tests.api.test_joint_answers import ALIKE, MACHINES, UNLIKE, VARIED
from tests.support.regressors import publish_regressor

pytestmark = pytest.mark.lengthy

REFUSED = [{**ALIKE[0], "configuration": {"gpu_type": "no such", "workers": 1}}, *ALIKE]


@pytest.fixture
def published(services: Services) -> Services:
    for workload in ("fitted", "other"):
        publish_regressor(services, workload=workload)
    return services


@pytest.fixture
def _keeping_garbage() -> Iterator[None]:
    gc.disable()
    yield
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()


def found_garbage() -> list[object]:
    """Return our objects in cycles that nobody holds; other libraries may leave theirs."""
    gc.collect()
    return [item for item in gc.garbage if type(item).__module__.startswith(("app.", "models."))]


def ask(services: Services, asked: list[dict[str, Any]]) -> None:
    """Ask the questions at once, one by one, and as a batch."""
    forecasts = services.forecasts
    answer_together(forecasts, DEFAULT_PROJECT, asked)
    for each in asked:
        try:
            answer_from_memory(forecasts, EncodedAnswers(1), DEFAULT_PROJECT, b"", each)
        except DomainError:
            continue
    read = [each for each in read_forecasts(asked) if isinstance(each, ForecastRequest)]
    forecasts.forecast_many(DEFAULT_PROJECT, read)


@pytest.mark.usefixtures("_keeping_garbage")
def test_answers_and_refusals_leave_no_cycles(published: Services) -> None:
    forms = (ALIKE, MACHINES, REFUSED, UNLIKE, VARIED)
    for asked in forms:
        ask(published, asked)
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)

    for asked in forms:
        ask(published, [{**each, "confidence": 0.75} for each in asked])

    assert found_garbage() == []
