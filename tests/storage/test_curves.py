"""The database finds the runs along an axis: a workload may have millions of others."""

import io
from collections.abc import Callable, Mapping

import orjson
import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.configurations import ParameterValue
from app.domain.curves import Axis, RunsAlong
from app.domain.identifiers import Slug
from app.domain.workloads import ParameterDeclaration, ParameterType, WorkloadDeclaration
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from tests.support.uploads import make_json_run

_SLUG = Slug("resnet50")
_WORKERS = Axis("workers", 1.5, 8.0, 20)
Find = Callable[[RunsAlong], list[float]]
"""Returns the durations of what is found, the newest first."""


@pytest.fixture
def find(services: Services) -> Find:
    types = {"depth": ParameterType.NUMBER, "size": ParameterType.CATEGORY}
    parameters = {name: ParameterDeclaration(kind) for name, kind in types.items()}
    services.workloads.declare(DEFAULT_PROJECT, _SLUG, WorkloadDeclaration(parameters=parameters))
    runs = [
        _run(1, {"gpu_type": "T4", "workers": 1}, {"depth": 50}),
        _run(2, {"gpu_type": "T4", "workers": 2}, {"depth": 50.0, "size": "8"}),
        _run(3, {"gpu_type": "T4", "workers": 8}, {"depth": 18.5, "size": "1e1"}),
        _run(4, {"gpu_type": "T4", "workers": 9}, {"size": 'a"b'}),
        _run(5, {"instance_type": "g4dn.xlarge", "workers": 4}, {}),
        _run(6, {"gpu_type": "V100-16GB", "workers": 4, "nodes": 2}, {"depth": 50}),
        {**_run(7, {"gpu_type": "T4", "workers": 4}, {"depth": 50}), "status": "failed"},
    ]
    services.uploads.upload(DEFAULT_PROJECT, io.BytesIO(orjson.dumps(runs)), UploadFormat.JSON)

    def durations(wanted: RunsAlong) -> list[float]:
        with services.context.database.reading() as stores:
            workload = stores.workloads.get(DEFAULT_PROJECT, _SLUG)
            assert workload is not None
            found = stores.runs.newest_along(workload.workload_id, wanted, limit=3)
        return list(found.duration_seconds)

    return durations


def _run(
    seconds: float, configuration: Mapping[str, object], parameters: Mapping[str, object]
) -> dict[str, object]:
    return make_json_run(
        duration_seconds=seconds, configuration=configuration, parameters=parameters
    )


@pytest.mark.parametrize(
    ("features", "found"),
    [
        ({}, [6, 5, 3]),
        ({"nodes": 2}, [6]),
        ({"nodes": 2, "dataset_size": 1281167.0}, [6]),
        ({"dataset_size": 1281168.0}, []),
        ({"param.depth": 50.0}, [6, 2]),
        ({"param.depth": 50.0, "param.size": "8"}, [2]),
        ({"param.size": "10"}, []),
    ],
)
def test_runs_have_the_given_features(
    find: Find, features: Mapping[str, ParameterValue], found: list[float]
) -> None:
    assert find(RunsAlong(_WORKERS, features)) == found


def test_runs_have_one_of_the_gpu_types(find: Find) -> None:
    assert find(RunsAlong(_WORKERS, {}, {"T4", "K80"})) == [3, 2]
    assert find(RunsAlong(_WORKERS, {}, ())) == []


def test_runs_that_name_a_machine_alone_have_its_gpu(find: Find) -> None:
    assert find(RunsAlong(_WORKERS, {}, {"T4"}, {"g4dn.xlarge"})) == [5, 3, 2]


@pytest.mark.parametrize(
    ("axis", "found"),
    [
        (Axis("param.depth", 18.5, 49.9, 3), [3]),
        (Axis("param.depth", 50.0, 50.0, 3), [6, 2, 1]),
        (Axis("param.size", 1.0, 100.0, 3), []),
        (Axis("epochs", 90.0, 90.0, 3), [6, 5, 4]),
    ],
)
def test_runs_lie_within_the_bounds_of_the_axis(find: Find, axis: Axis, found: list[float]) -> None:
    assert find(RunsAlong(axis, {})) == found


def test_parameters_are_found_by_any_name_and_word(find: Find) -> None:
    assert find(RunsAlong(Axis("workers", 1, 9, 3), {"param.size": 'a"b'})) == [4]
