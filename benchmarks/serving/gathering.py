"""Simultaneous questions: answered together, relative to one by one."""

import json
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from app.api.encoded.cache import EncodedAnswers
from app.api.encoded.forecasts import answer_from_memory
from app.api.requests.forecasts import read_forecast
from app.api.shortcut.joint_answers import JointAnswer, answer_together
from app.domain.access import DEFAULT_PROJECT
from benchmarks.serving.load import MARK
from benchmarks.serving.slices import Figure, Goal, alternate, cpu_seconds
from benchmarks.serving.stage import Stage, forecast_body

_BOUNDS: Final = {3: 1.0, 16: 0.5, 64: 0.25}
"""By number of simultaneous questions; at least three are answered together."""

_N_QUESTIONS: Final = 192
_FIRST, _STEP, _SIZES = 100_000_000, 137_000, 900_000_000


def measure_gathering(stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the CPU time of questions answered together, relative to the same one by one."""
    forecasts = stage.services.forecasts
    template = forecast_body(record=False, is_new=True)
    first = read_forecast(_document(template, 0))
    numbers = count(1)
    cache = EncodedAnswers(1)

    def documents(n: int) -> list[Any]:
        return [_document(template, next(numbers)) for _ in range(n)]

    def alone() -> None:
        forecasts.forecast(DEFAULT_PROJECT, first)  # the regressor is known for a second only
        for document in documents(_N_QUESTIONS):
            answer_from_memory(forecasts, cache, DEFAULT_PROJECT, b"", document)

    for n, bound in _BOUNDS.items():
        refused: list[object] = []

        def together(n: int = n, refused: list[object] = refused) -> None:
            forecasts.forecast(DEFAULT_PROJECT, first)
            for _ in range(_N_QUESTIONS // n):
                answers = answer_together(forecasts, DEFAULT_PROJECT, documents(n))
                refused.extend(answer for answer in answers if not isinstance(answer, JointAnswer))

        timings = alternate(cpu_seconds(together), cpu_seconds(alone), slices)
        goal = Goal(f"{n} new forecasts asked at once", "one by one", bound)
        note = f"CPU time; one alone {1e6 * min(timings.floor) / _N_QUESTIONS:.0f} us without HTTP"
        yield Figure.of(goal, timings, failures=len(refused), note=note)


def _document(template: str, number: int) -> Any:
    return json.loads(template.replace(MARK, str(_FIRST + number * _STEP % _SIZES)))
