"""Nodes that a search names and on which its workers cannot stand."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.api.test_searched_hardware import (
    BOTH,
    configurations,
    own_machines,
    plan,
    recommend,
)

pytestmark = pytest.mark.lengthy

__all__ = ["own_machines"]

V100: dict[str, Any] = {"gpu_types": ["V100-16GB"]}


def rejected(answer: Any) -> set[tuple[int, int, str]]:
    assert answer.status_code == 200, answer.text
    return {
        (
            candidate["configuration"]["nodes"],
            candidate["configuration"]["workers"],
            candidate["reason"],
        )
        for candidate in answer.json()["rejected"]
    }


@BOTH
def test_workers_without_room_and_nodes_without_workers_are_rejected(
    client: TestClient, ask: Any
) -> None:
    answer = ask(client, {**V100, "nodes": [1, 4], "workers": [1, 4, 8]})

    assert rejected(answer) == {
        (1, 8, "too_few_gpus"),
        (4, 1, "too_few_workers"),
    }
    standing = {
        (configuration["nodes"], configuration["workers"])
        for configuration in configurations(answer)
    }
    assert standing <= {(1, 1), (1, 4), (4, 4), (4, 8)}


@BOTH
@pytest.mark.parametrize(
    ("nodes", "workers", "reason"), [(1, 64, "too_few_gpus"), (2, 1, "too_few_workers")]
)
def test_search_of_which_nothing_can_stand_is_answered_with_the_reason(
    client: TestClient, ask: Any, nodes: int, workers: int, reason: str
) -> None:
    answer = ask(client, {**V100, "nodes": [nodes], "workers": [workers]})

    assert rejected(answer) == {(nodes, workers, reason)}
    document = answer.json()
    assert configurations(answer) == []
    assert document["considered"] == document["rejected_count"]


@pytest.mark.parametrize(("nodes", "workers", "needed"), [([1, 2], 64, 16), ([3, 2], 1, 1)])
def test_nearest_stands_on_the_nearest_nodes_that_would_do(
    client: TestClient, nodes: list[int], workers: int, needed: int
) -> None:
    search = {**V100, "nodes": nodes, "workers": [workers]}

    answer = recommend(client, search).json()

    (change,) = answer["nearest"]["changes"]
    assert (change["constraint"], change["asked"], change["needed"]) == ("search.nodes", 2, needed)
    assert answer["nearest"]["forecast"]["configuration"]["nodes"] == needed
    repeated = recommend(client, {**search, "nodes": [needed]}).json()
    assert repeated["recommended"]["forecast"]["cost"] == answer["nearest"]["forecast"]["cost"]
    assert answer["recommended"] is None


def test_nearest_on_other_nodes_tells_what_else_would_have_to_change(client: TestClient) -> None:
    search = {**V100, "nodes": [1], "workers": [64]}

    answer = recommend(client, search, deadline_s=1)
    said = client.post(
        "/v1/recommendations",
        json={"workload": "dense", "work": {"dataset_size": 5000}, "search": search},
        headers={"Accept": "text/plain"},
    ).text

    changes = [change["constraint"] for change in answer.json()["nearest"]["changes"]]
    assert changes == ["search.nodes", "deadline_s"]
    assert "Its workers would have to run on 16 nodes instead of 1." in said


def test_candidates_that_are_given_may_stand_as_they_are_told(client: TestClient) -> None:
    work = {"dataset_size": 10_000}
    given = {"gpu_type": "V100-16GB", "instance_type": "q4", "nodes": 1, "workers": 16}

    answer = plan(client, {"nodes": [1]}, candidates=[{"configuration": given, "work": work}])

    assert [configuration["workers"] for configuration in configurations(answer)] == [16]
