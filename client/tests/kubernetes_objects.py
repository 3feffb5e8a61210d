"""Objects of Kubernetes as `kubectl get -o json` prints them."""

import json
from pathlib import Path
from typing import Any

from client.tests.importing import written

Object = dict[str, Any]
UID = "6f6a1b1c-0000-4000-8000-00000000000"


def node(name: str = "n1", **labels: str) -> Object:
    """Return a node of GPUs."""
    known = {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB",
        "node.kubernetes.io/instance-type": "p4de.24xlarge",
        "topology.kubernetes.io/region": "eu-west-1",
        **labels,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": known},
        "spec": {"providerID": "aws:///eu-west-1a/i-0abc"},
    }


def template(*, gpus: int = 4, command: list[str] | None = None, **variables: str) -> Object:
    """Return the template of pods with one container and a sidecar."""
    container: Object = {
        "name": "train",
        "image": "registry.example/train:7",
        "command": command or ["python", "train.py", "--batch-size=256", "--lr", "0.1"],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "resources": {"requests": {"cpu": "8", "memory": "64Gi"}},
    }
    if gpus:
        container["resources"]["limits"] = {"nvidia.com/gpu": str(gpus)}
    sidecar = {"name": "proxy", "image": "registry.example/proxy:1"}
    return {
        "metadata": {},
        "spec": {"containers": [container, sidecar], "restartPolicy": "Never"},
    }


def job(name: str = "train-7", uid: int = 1, *, condition: str = "Complete", **spec: Any) -> Object:
    """Return an ended Job, started at 10:00 and completed at 11:00; no condition: it goes on."""
    conditions = [
        {
            "type": condition.partition(":")[0],
            "status": "True",
            "reason": condition.partition(":")[2] or "CompletionsReached",
            "lastTransitionTime": "2026-11-01T11:00:00Z",
        }
    ]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "uid": f"{UID}{uid}",
            "creationTimestamp": "2026-11-01T10:00:00Z",
        },
        "spec": {"parallelism": 1, "completions": 1, "template": template(), **spec},
        "status": {
            "startTime": "2026-11-01T10:00:00Z",
            **({"completionTime": "2026-11-01T11:00:00Z"} if condition == "Complete" else {}),
            "conditions": conditions if condition else [],
        },
    }


def pod(
    number: int = 1,
    *,
    of: Object | None = None,
    node_name: str = "n1",
    start: str = "10:05:00",
    end: str = "10:55:30",
    exit_code: int | None = 0,
    reason: str = "",
    labels: dict[str, str] | None = None,
    template_: Object | None = None,
) -> Object:
    """Return a pod whose container ran between two times of a day; no exit code: it runs on."""
    owner = of or job()
    name = owner["metadata"]["name"]
    spec = (template_ or owner["spec"]["template"])["spec"]
    running = {"running": {"startedAt": f"2026-11-01T{start}Z"}}
    ended = {
        "terminated": {
            "exitCode": exit_code,
            "reason": reason or ("Completed" if exit_code == 0 else "Error"),
            "startedAt": f"2026-11-01T{start}Z",
            "finishedAt": f"2026-11-01T{end}Z",
        }
    }
    state = running if exit_code is None else ended
    phase = {None: "Running", 0: "Succeeded"}.get(exit_code, "Failed")
    statuses: list[Object] = [
        {"name": "proxy", "state": {"running": {"startedAt": "2026-11-01T10:00:00Z"}}},
        {"name": "train", "state": state},
    ]
    for status in statuses:
        status |= {"image": "i", "imageID": "", "ready": False, "restartCount": 0}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{number}",
            "namespace": "ml",
            "uid": f"{owner['metadata']['uid']}-pod-{number}",
            "creationTimestamp": f"2026-11-01T{start}Z",
            "labels": {"batch.kubernetes.io/job-name": name} if labels is None else labels,
            "ownerReferences": [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": name,
                    "uid": owner["metadata"]["uid"],
                }
            ],
        },
        "spec": {**spec, "nodeName": node_name},
        "status": {"phase": phase, "containerStatuses": statuses},
    }


def exported(folder: Path, *objects: Object, name: str = "objects.json") -> Path:
    """Write objects as one export and return its file."""
    listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
    return written(folder / name, json.dumps(listed))
