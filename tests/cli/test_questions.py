"""The question that the demo asks about a workload."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typing_extensions import override

from app.cli.connection import Connection
from app.cli.questions import question_about

CATEGORY: dict[str, Any] = {"type": "category", "values": ["a, b", "c"]}
FEATURES: dict[str, Any] = {
    "gpu_type": {"type": "category", "values": ["T4", "our own, old"]},
    "workers": {"type": "number", "min": 1.0, "max": 3.0},
    "dataset_size": {"type": "number", "min": 10.0, "max": 1000.0},
    "epochs": {"type": "number", "min": 1.0, "max": 5.0},
    "param.layers": {"type": "number", "min": 2.0, "max": 24.0},
    "param.kind": CATEGORY,
}


class _Described(Connection):
    """A connection to a service that knows one workload."""

    def __init__(self, features: dict[str, Any]) -> None:
        super().__init__("http://127.0.0.1:1", None)
        self._features = features

    @override
    def get(self, path: str, *, required: str, **options: Any) -> Any:
        assert path == "/v1/workloads/w"
        return {required: self._features}


def test_question_goes_beyond_what_was_measured() -> None:
    question = question_about(_Described(FEATURES), "w")

    assert question.workload == "w"
    assert question.sentence == "4 times the largest data that was measured"
    assert question.what_if == {
        "dataset_size": "4000.0",
        "epochs": "5.0",
        "param.layers": "24.0",
        "param.kind": '"a, b"',
        "workers": "1,2,4,8",
        "gpu_type": 'T4,"our own, old"',
    }
    assert question.recommendation == {
        "workload": "w",
        "work": {"dataset_size": 4000.0, "epochs": 5.0},
        "parameters": {"layers": 24.0, "kind": "a, b"},
        "search": {"workers": [1, 2, 4, 8], "gpu_types": ["T4", "our own, old"]},
        "objective": "cost",
    }


def test_path_of_one_names_the_last_configuration() -> None:
    path = urlsplit(question_about(_Described(FEATURES), "w").path_of_one)

    assert path.path == "/v1/workloads/w/forecast"
    assert parse_qs(path.query) == {
        "dataset_size": ["4000.0"],
        "epochs": ["5.0"],
        "param.layers": ["24.0"],
        "param.kind": ['"a, b"'],
        "workers": ["8"],
        "gpu_type": ['"our own, old"'],
    }


@pytest.mark.parametrize("features", [{}, {"epochs": FEATURES["epochs"]}])
def test_workload_without_gpus_has_a_price_that_was_made_up(features: dict[str, Any]) -> None:
    question = question_about(_Described(features), "w")

    price = {"price_per_hour": "0.10", "currency": "USD"}
    assert question.sentence.endswith("; 0.10 USD an hour a worker is a price we made up")
    assert question.what_if["workers"] == "1,2,4"
    assert {name: question.what_if[name] for name in price} == price
    assert question.recommendation["pricing"] == price
    assert question.recommendation["search"] == {"workers": [1, 2, 4]}
    assert "dataset_size" not in question.what_if
