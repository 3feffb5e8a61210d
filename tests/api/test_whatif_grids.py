"""Grids of what-if questions: each forecast is that of its point alone."""

from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from app.api.requests.forecasts import read_columns, read_forecast
from app.api.schemas.flat_queries import read_grid
from app.domain.access import DEFAULT_PROJECT
from app.domain.identifiers import Slug
from app.services.answering.questions import ScenarioResolver
from app.services.wiring import Services
from tests.support.regressors import fit

WORKLOAD = Slug("typed")
AXES = {
    "workers": ["1", "2", "02", "8", "900"],
    "gpu_type": ["T4", " t4", "V100"],
    "dataset_size": ["1000", "1e3", "2500.5", "9e17"],
    "epochs": ["1", "1.0", "3"],
    "param.depth": ["1", "1.0", "-0", "0", "2.5", "1e9"],
    "param.bits": ["16", "16.0", "32", " 32", "64"],
}
BAD = {"workers": "0", "epochs": "many", "param.depth": "deep", "gpu_type": "A100"}


@pytest.fixture
def published(client: TestClient, services: Services) -> Services:
    """A workload with a numeric parameter, and one whose levels look like numbers."""
    runs = [
        {
            "workload": WORKLOAD,
            "duration_seconds": 10.0 * depth / workers + seconds,
            "gpu_type": "T4",
            "workers": workers,
            "dataset_size": 1000.0 * depth,
            "parameters": {"depth": depth, "bits": bits},
        }
        for depth in (1, 2, 3)
        for workers in (1, 2, 4)
        for bits, seconds in (("16", 1.0), ("32", 9.0))
    ]
    assert client.post("/v1/runs", json=runs).status_code == 201
    fit(services, WORKLOAD)
    return services


@st.composite
def queries(draw: st.DrawFn) -> dict[str, str]:
    """Return the fields of a query, most of which are lists."""
    names = draw(st.lists(st.sampled_from(sorted(AXES)), unique=True, min_size=1, max_size=4))
    fields = {
        name: ",".join(draw(st.lists(st.sampled_from(AXES[name]), min_size=1, max_size=4)))
        for name in names
    }
    if draw(st.integers(0, 5)) == 0:
        bad = draw(st.sampled_from(sorted(BAD)))
        fields[bad] = f"{fields[bad]},{BAD[bad]}" if bad in fields else BAD[bad]
    return fields


@pytest.mark.lengthy
@settings(max_examples=60)
@given(query=queries())
def test_each_forecast_of_a_grid_is_that_of_its_point(
    client: TestClient, published: Services, query: dict[str, str]
) -> None:
    points = _points(query)

    grid = client.get(f"/v1/workloads/{WORKLOAD}/forecast", params=query)

    alone = [client.post("/v1/forecasts", json=point) for point in points]
    refusals = [answer.json() for answer in alone if not answer.is_success]
    if refusals:
        # All points are read before any is asked.
        refusal = grid.json()
        alike = [each for each in refusals if each["code"] == refusal["code"]]
        assert grid.status_code == 422
        assert refusal["errors"][0]["field"] == alike[0]["errors"][0]["field"]
    elif len(points) == 1:
        assert grid.content == alone[0].content
    else:
        joined = b",".join(answer.content for answer in alone)
        assert grid.content == b'{"forecasts":[%b]}' % joined


def _points(query: dict[str, str]) -> list[dict[str, Any]]:
    return list(read_grid(query.items(), WORKLOAD).points())


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("param.depth=1,2.5,-0", [1.0, 2.5, -0.0]),
        ("param.bits=16.0,32", ["16.0", "32"]),
        ("param.depth=1,deep", None),
        ("param.other=1,2", None),
    ],
)
def test_numbers_that_are_texts_stay_columns(
    published: Services, column: str, expected: list[float | str] | None
) -> None:
    name, _, values = column.partition("=")
    grid = read_grid([("workers", "2"), (name, values)], WORKLOAD)
    asked = read_columns(next(grid.points()), grid.varied(), len(grid)).scenarios
    answered = _resolver(published).resolve_columns(asked)

    found = None if answered is None else list(answered.parameters[name.removeprefix("param.")])

    assert str(found) == str(expected)


def _resolver(services: Services) -> ScenarioResolver:
    services.forecasts.forecast(DEFAULT_PROJECT, read_forecast({"workload": WORKLOAD}))
    grounds = services.forecasts.grounds(DEFAULT_PROJECT, WORKLOAD, None)
    assert grounds is not None
    return ScenarioResolver(grounds.served, grounds.book)
