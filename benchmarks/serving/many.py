"""Thousands of configurations in one request, relative to one evaluation of as many rows."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import httpx2

from benchmarks.evaluation.workloads import generate_features
from benchmarks.serving.processes import Server, started_service
from benchmarks.serving.slices import Figure, Goal, Slices, alternate, cpu_seconds
from benchmarks.serving.stage import WORKLOAD, Stage
from models import FeatureTable, FittedPortfolio

_ALONE: Final = "evaluation alone"
_WHOLE: Final = Goal("forecasts:batch of 10,000, whole answers", _ALONE, 1.5)
_TRIMMED: Final = Goal("forecasts:batch of 10,000, `fields`: duration_seconds", _ALONE, 1.5)
_GRID: Final = Goal("what-if grid of 10,000 points", _ALONE, 1.5)
_RECOMMEND: Final = Goal("recommendation over 5,000 candidates", _ALONE, 1.5)
_Request = tuple[str, bytes | None]
"""The path after `/v1/`, with its query, and a body to post."""

_BATCH, _CANDIDATES, _GPUS = 10_000, 5_000, 2
_REGIONS: Final = [f"region-{number}" for number in range(5)]


def measure_batches(stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the figures of a batch, with whole answers and with only the durations, and a grid."""
    questions = generate_features(_BATCH, 7)
    with started_service(stage.database_url) as service:
        for goal, fields in ((_WHOLE, None), (_TRIMMED, ["duration_seconds"])):
            request = "forecasts:batch", _batch_body(questions, fields)
            yield _compare_with_evaluation(
                goal, service, request, stage.portfolio, questions, slices
            )
        yield _compare_with_evaluation(
            _GRID, service, (_grid_path(), None), stage.portfolio, questions, slices
        )


def measure_recommendations(stage: Stage, slices: int, _seconds: float) -> Iterator[Figure]:
    """Yield the figure of a recommendation."""
    questions = generate_features(_CANDIDATES, 7)
    with started_service(stage.database_url) as service:
        yield _compare_with_evaluation(
            _RECOMMEND,
            service,
            ("recommendations", _recommendation_body()),
            stage.portfolio,
            questions,
            slices,
        )


def evaluate(portfolio: FittedPortfolio, questions: FeatureTable) -> None:
    """Ask like the service: median, bounds, time limit."""
    forecast = portfolio.predict(questions)
    forecast.median()
    forecast.interval(0.9)
    forecast.quantile(0.95)


def _compare_with_evaluation(
    goal: Goal,
    service: Server,
    request: _Request,
    portfolio: FittedPortfolio,
    questions: FeatureTable,
    slices: int,
) -> Figure:
    """Compare the CPU time of the service for a request with that of an evaluation here."""
    refused: list[int] = []
    with httpx2.Client(timeout=120) as client:
        timed = _timed_request(client, service, request, refused)
        timings: Slices = alternate(
            timed, cpu_seconds(lambda: evaluate(portfolio, questions)), slices
        )
    note = f"CPU time; the evaluation took {1e3 * min(timings.floor):.0f} ms at best"
    return Figure.of(goal, timings, failures=len(refused), note=note)


def _timed_request(
    client: httpx2.Client, service: Server, request: _Request, refused: list[int]
) -> Callable[[], float]:
    path, body = request
    method = "GET" if body is None else "POST"
    url = f"http://127.0.0.1:{service.port}/v1/{path}"
    headers = {"Content-Type": "application/json"}

    def timed() -> float:
        before = service.cpu_seconds()
        answer = client.request(method, url, content=body, headers=headers)
        seconds = service.cpu_seconds() - before
        if not answer.is_success or answer.json().get("failed"):
            refused.append(answer.status_code)
        return seconds

    return timed


def _batch_body(questions: FeatureTable, fields: list[str] | None) -> bytes:
    numeric = questions.numeric
    requests = [
        {
            "configuration": {
                "gpu_type": questions.categorical["gpu_type"][row],
                "workers": int(numeric["workers"][row]),
            },
            "work": {
                "dataset_size": numeric["dataset_size"][row],
                "batch_size": numeric["batch_size"][row],
            },
            "parameters": {"layers": numeric["param.layers"][row]},
        }
        for row in range(questions.n_rows)
    ]
    document: dict[str, Any] = {"defaults": {"workload": WORKLOAD}, "requests": requests}
    if fields is not None:
        document["fields"] = fields
    return json.dumps(document).encode()


def _grid_path() -> str:
    axes: dict[str, Iterable[object]] = {
        "gpu_type": ["T4", "K80"],
        "workers": [4, 8, 16, 32, 64],
        "dataset_size": range(20_000, 1_020_000, 20_000),
        "batch_size": [256, 512],
        "param.layers": range(4, 44, 4),
    }
    query = "&".join(f"{name}={','.join(map(str, values))}" for name, values in axes.items())
    return f"workloads/{WORKLOAD}/forecast?{query}"


def _recommendation_body() -> bytes:
    workers = range(1, _CANDIDATES // (_GPUS * len(_REGIONS)) + 1)
    document = {
        "workload": WORKLOAD,
        "work": {"dataset_size": 200_000, "batch_size": 256},
        "parameters": {"layers": 24},
        "search": {
            "gpu_types": ["T4", "K80"],
            "regions": _REGIONS,
            "nodes": [1],
            "workers": list(workers),
        },
        "pricing": {"price_per_hour": "3.00"},
        "objective": "cost",
    }
    return json.dumps(document).encode()
