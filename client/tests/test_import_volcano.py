"""Jobs of Volcano, whose kind is Job too, but which consist of tasks with replicas."""

from pathlib import Path
from typing import Any

import pytest

from client.tests.importing import Importing
from client.tests.kubernetes_objects import UID, Object, exported, job, node, pod, template


def _volcano_job(phase: str = "Completed") -> Object:
    tasks = [
        {"name": "master", "replicas": 1, "template": template(gpus=0)},
        {"name": "worker", "replicas": 2, "template": template()},
    ]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "gang", "namespace": "ml", "uid": f"{UID}8"},
        "spec": {"minAvailable": 3, "schedulerName": "volcano", "tasks": tasks},
        "status": {"state": {"phase": phase}, "conditions": [{"status": phase}]},
    }


def _replica(task: str, index: int, *, numbered_by: str = "labels", **changes: Any) -> Object:
    owner = _volcano_job()
    described = next(each for each in owner["spec"]["tasks"] if each["name"] == task)
    number = index if task == "worker" else 9
    labels = {"volcano.sh/job-name": "gang", "volcano.sh/task-spec": task}
    replica = pod(number, of=owner, labels=labels, template_=described["template"], **changes)
    replica["metadata"].setdefault(numbered_by, {})["volcano.sh/task-index"] = str(index)
    return replica


@pytest.mark.parametrize("numbered_by", ["labels", "annotations"])
@pytest.mark.parametrize("with_object", [True, False])
def test_job_of_volcano_is_its_replicas(
    importing: Importing, tmp_path: Path, numbered_by: str, *, with_object: bool
) -> None:
    pods = [
        _replica("master", 0, numbered_by=numbered_by, start="10:00:00", end="11:00:00"),
        _replica("worker", 0, numbered_by=numbered_by),
        _replica("worker", 1, numbered_by=numbered_by, node_name="n2"),
    ]
    owner = [_volcano_job()] * with_object

    (row,) = importing.dry("kubernetes", exported(tmp_path, *pods, *owner, node(), node("n2")))

    assert (row["workload"], row["workers"], row["nodes"]) == ("gang", "8", "2")
    assert (row["status"], row["duration_seconds"]) == ("succeeded", "3600.0")
    assert row["external_id"] == f"kubernetes:{UID}8"


@pytest.mark.parametrize(
    ("phase", "status"),
    [("Completed", "succeeded"), ("Failed", "failed"), ("Terminated", "failed")],
)
def test_phase_tells_how_a_job_of_volcano_ended(
    phase: str, status: str, importing: Importing, tmp_path: Path
) -> None:
    # Volcano ends the other replicas when a task is done.
    pods = [
        _replica("master", 0),
        _replica("worker", 0, exit_code=143),
        _replica("worker", 1, exit_code=143),
    ]

    (row,) = importing.dry("kubernetes", exported(tmp_path, _volcano_job(phase), *pods))

    assert row["status"] == status


def test_job_of_volcano_that_goes_on_or_has_lost_pods_is_left_out(
    importing: Importing, tmp_path: Path
) -> None:
    running = [
        _replica(task, index, exit_code=None)
        for task, index in (("master", 0), ("worker", 0), ("worker", 1))
    ]
    ended = job()

    goes_on = importing(
        "kubernetes", exported(tmp_path, ended, _volcano_job("Running"), *running), "--dry-run"
    )
    some = importing(
        "kubernetes", exported(tmp_path, ended, _volcano_job(), _replica("worker", 0)), "--dry-run"
    )
    none = importing("kubernetes", exported(tmp_path, ended, _volcano_job()), "--dry-run")

    assert "Left out: 1 jobs that have not ended" in goes_on.err
    assert "Left out: 1 jobs some of whose pods are gone" in some.err
    assert "Left out: 1 jobs some of whose pods are gone" in none.err
    assert {len(answer.rows) for answer in (goes_on, some, none)} == {1}
