"""Jobs of Kubernetes: each ended one in the output of `kubectl get -o json` is a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.faults import Report, RowError, SourceError
from trainfare_client.importers.kubernetes_values import (
    Object,
    amount_in,
    arguments_in,
    environment_in,
    gpu_type_in,
    gpus_in,
    instant,
    main_container,
    member,
    node_labels,
    objects_in,
    place_in,
    texts_in,
)
from trainfare_client.importers.lines import document
from trainfare_client.importers.naming import run_key, slug
from trainfare_client.importers.rows import ImportedRow
from trainfare_client.variables import PARAMETER, WORK, WORKLOAD, variable_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.options import Options

COMMAND: Final = "kubectl get jobs,pods,nodes --all-namespaces -o json"
_NOT_ENDED: Final = "jobs that have not ended"
_IN_TURN: Final = "jobs whose pods run one after the other, which are not one configuration"
_NO_JOB: Final = "pods of no job"
_NEVER_RAN: Final = "jobs that never ran, or for less than a second"
_NO_OBJECT: Final = "jobs of which only pods were exported"
_PODS_GONE: Final = "jobs some of whose pods are gone"
_OTHER_KIND: Final = "objects that are no jobs, pods or nodes"
# A JobSet's pods are those of its jobs, too; the widest group comes first.
_GROUPS: Final = (
    "jobset.sigs.k8s.io/jobset-name",
    "training.kubeflow.org/job-name",
    "volcano.sh/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
)
_JOBSET_UID: Final = "jobset.sigs.k8s.io/jobset-uid"
_PLACES_IN_GROUP: Final = (
    "jobset.sigs.k8s.io/replicatedjob-name",
    "jobset.sigs.k8s.io/job-index",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/replica-index",
    "batch.kubernetes.io/job-completion-index",
    "volcano.sh/task-spec",
    "volcano.sh/task-index",
)
_VOLCANO_ENDS: Final = {
    "Completed": "Complete",
    "Failed": "Failed",
    "Terminated": "Failed",
    "Aborted": "Failed",
}
_PREEMPTIONS: Final = frozenset({"Preempting", "Evicted", "NodeLost", "Shutdown", "NodeShutdown"})
_REPLICAS: Final = re.compile(r"(?:pytorch|tf|mpi|jax|xgb|paddle)ReplicaSpecs")


@dataclass
class _Job:
    """One job: its object, if it was exported, and its pods."""

    namespace: str
    name: str
    uid: str
    item: Object = field(default_factory=dict)
    pods: dict[str, Object] = field(default_factory=dict)


@dataclass(frozen=True)
class _Execution:
    """How the last attempt of a job went."""

    status: str
    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


def read_kubernetes(
    paths: Sequence[str], report: Report, options: Options
) -> Iterator[ImportedRow]:
    """Yield the ended jobs in the output of `kubectl get jobs,pods,nodes -o json`.

    A job may be a Job, a JobSet or one of Kubeflow or Volcano. Its time is that of its pods'
    containers, or, if only the Job is left, that between its start and completion.

    Raises
    ------
    SourceError
        If a file is not such output.
    """
    jobs: dict[tuple[str, ...], _Job] = {}
    nodes: dict[str, Object] = {}
    for path in paths:
        for item in _items(path):
            if item.get("kind") == "Node":
                nodes[str(member(item, "metadata", "name"))] = item
            elif reason := _add(item, jobs):
                report.leave_out(reason)
    for job in jobs.values():
        place = f"job {job.namespace}/{job.name}"
        try:
            row = _row(place, job, nodes, options)
        except RowError as error:
            report.add(place, error.message, error.remedy)
            continue
        if isinstance(row, str):
            report.leave_out(row)
        else:
            yield row


def _items(path: str) -> list[Object]:
    content = document(path)
    kind = member(content, "kind")
    if not isinstance(kind, str):
        raise SourceError(path, "It holds no objects of Kubernetes.", f"Export with: {COMMAND}")
    if not isinstance(member(content, "items"), list):
        return [content]
    # The API's own lists name the kind of their items once.
    return [{"kind": kind.removesuffix("List"), **item} for item in objects_in(content, "items")]


def _add(item: Object, jobs: dict[tuple[str, ...], _Job]) -> str:
    """Add a job or a pod to the jobs; return the reason why it is left out, if it is."""
    labels = texts_in(item, "metadata", "labels")
    group = next((name for name in _GROUPS if labels.get(name)), None)
    namespace = str(member(item, "metadata", "namespace") or "default")
    name, uid = (str(member(item, "metadata", part) or "") for part in ("name", "uid"))
    if item.get("kind") != "Pod":
        if _expected_pods(item) is None:
            return _OTHER_KIND
        # The jobs of a JobSet are parts of it.
        if group != _GROUPS[0]:
            key = (namespace, name, uid)
            jobs.setdefault(key, _Job(*key)).item = item
        return ""
    if group is None:
        return _NO_JOB
    owner = (objects_in(item, "metadata", "ownerReferences") or [{}])[0]
    owner_uid = labels.get(_JOBSET_UID, "") if group == _GROUPS[0] else str(owner.get("uid") or "")
    key = (namespace, labels[group], owner_uid)
    jobs.setdefault(key, _Job(*key)).pods[uid or name] = item
    return ""


def _expected_pods(item: Object) -> int | None:
    """Return how many pods a job has at a time; None if it is no job, or does not say so."""
    spec = member(item, "spec")
    if not isinstance(spec, Mapping):
        return None
    if _is_plain_job(item):
        return _count(spec, "parallelism")
    if tasks := objects_in(spec, "tasks"):
        return sum(_count(task, "replicas") for task in tasks)
    if item.get("kind") == "JobSet":
        parts = objects_in(spec, "replicatedJobs")
        return sum(
            _count(part, "replicas") * _count(part, "template", "spec", "parallelism")
            for part in parts
        )
    replicas = [specs for name, specs in spec.items() if _REPLICAS.fullmatch(name)]
    if not replicas or not isinstance(replicas[0], Mapping):
        return None
    return sum(_count(part, "replicas") for part in replicas[0].values())


def _is_plain_job(item: Object) -> bool:
    """Whether this is Kubernetes' own Job: Volcano's has the same kind."""
    return item.get("kind") == "Job" and isinstance(member(item, "spec", "template"), Mapping)


def _count(source: object, *path: str) -> int:
    """Return a number of replicas, one if it is not stated."""
    found = member(source, *path)
    return found if isinstance(found, int) else 1


def _row(place: str, job: _Job, nodes: Mapping[str, Object], options: Options) -> ImportedRow | str:
    """Return a job's run, or the reason why it is none."""
    expected = _expected_pods(job.item)
    if _count(job.item, "spec", "completions") > (expected or 1):
        return _IN_TURN
    pods = _last_attempt(job, expected)
    if isinstance(pods, str):
        return pods
    execution = _execution(job, pods)
    if isinstance(execution, str):
        return execution
    # A launcher without GPUs only waits for the workers.
    working = [pod for pod in pods if gpus_in(main_container(pod))[0]] or pods
    replicas = 1 if pods else expected or 1
    working = working or [member(job.item, "spec", "template")]
    container = main_container(working[0])
    environment, arguments = environment_in(container), arguments_in(container)
    facts = {
        **_facts(job, working, execution),
        **{f"env.{name}": value for name, value in environment.items()},
        **{f"arg.{name}": value for name, value in arguments.items()},
    }
    parameters = {name: arguments[name] for name in options.parameters if name in arguments}
    fields = {
        "external_id": run_key("kubernetes", job.uid or f"{job.namespace}/{job.name}"),
        "status": execution.status,
        "duration_seconds": execution.seconds,
        "started_at": execution.start.isoformat(),
        "workload": slug(environment.get(WORKLOAD) or _base_name(job)),
        **_configuration(working, nodes),
        "workers": (_gpu_count(working) or len(working)) * replicas,
        **{f"param.{name}": value for name, value in parameters.items()},
        **_work(environment),
        "label.namespace": job.namespace,
        "label.job": job.name,
    }
    return ImportedRow(place, fields, facts)


def _last_attempt(job: _Job, expected: int | None) -> list[Object] | str:
    """Return the pods of a job's last attempt, or the reason why they are not known."""
    by_start = sorted(
        job.pods.values(), key=lambda pod: str(member(pod, "metadata", "creationTimestamp") or "")
    )
    places: dict[tuple[str, ...], Object] = {}
    for pod in by_start:
        # Older versions of Volcano number its pods by an annotation alone.
        told = texts_in(pod, "metadata", "annotations") | texts_in(pod, "metadata", "labels")
        places[tuple(told.get(name, "") for name in _PLACES_IN_GROUP)] = pod
    if len(places) > 1 or any(map(any, places)):
        pods = list(places.values())
    elif expected is None:
        # What was tried again looks like what ran beside it.
        return _NO_OBJECT
    else:
        pods = by_start[-expected:]
    # A Job itself tells what its pods would.
    is_whole = len(pods) >= (expected or 0) or (not pods and _is_plain_job(job.item))
    return pods if is_whole else _PODS_GONE


def _execution(job: _Job, pods: Sequence[Object]) -> _Execution | str:
    """Return how a job's pods went, or why there is nothing to tell."""
    ends = [_terminated(pod) for pod in pods]
    condition = _final_condition(job.item)
    if condition is None and not (ends and all(ends)):
        return _NOT_ENDED
    times = [(end.get("startedAt"), end.get("finishedAt")) for end in ends if end]
    if condition is not None and not pods:
        start, completion = (
            member(job.item, "status", name) for name in ("startTime", "completionTime")
        )
        times = [(start, completion or condition.get("lastTransitionTime"))]
    # A container that could not be started has begun in 1970, by its runtime.
    starts = [at for start, _ in times if (at := instant(start)) and at.timestamp() > 0]
    finishes = [moment for _, finish in times if (moment := instant(finish))]
    if not starts or not finishes or max(finishes) <= min(starts):
        return _NEVER_RAN
    return _Execution(_status(pods, ends, condition), min(starts), max(finishes))


def _terminated(pod: Object) -> Object | None:
    """Return how a pod's main container ended, None if it has not."""
    name = main_container(pod).get("name")
    states = objects_in(pod, "status", "containerStatuses")
    state = next((each for each in states if each.get("name") == name), None)
    ended = member(state, "state", "terminated")
    return ended if isinstance(ended, Mapping) else None


def _final_condition(item: Object) -> Object | None:
    """Return the condition that ended a job, None if it goes on."""
    phase = str(member(item, "status", "state", "phase"))
    if phase in _VOLCANO_ENDS:
        return {"type": _VOLCANO_ENDS[phase]}
    return next(
        (
            each
            for each in objects_in(item, "status", "conditions")
            if each.get("type") in ("Complete", "Completed", "Succeeded", "Failed")
            and each.get("status") == "True"
        ),
        None,
    )


def _status(pods: Sequence[Object], ends: Sequence[Object | None], condition: Object | None) -> str:
    if condition is not None and condition.get("type") != "Failed":
        return "succeeded"
    reasons = {str(member(end, "reason")) for end in ends} | {
        str(member(pod, "status", "reason")) for pod in pods
    }
    reasons.add(str((condition or {}).get("reason")))
    disrupted = any(
        each.get("type") == "DisruptionTarget" and each.get("status") == "True"
        for pod in pods
        for each in objects_in(pod, "status", "conditions")
    )
    if "OOMKilled" in reasons:
        return "out_of_memory"
    if "DeadlineExceeded" in reasons:
        return "timed_out"
    if disrupted or reasons & _PREEMPTIONS:
        return "preempted"
    succeeded = bool(ends) and all(member(end, "exitCode") == 0 for end in ends)
    return "succeeded" if succeeded and condition is None else "failed"


def _base_name(job: _Job) -> str:
    """Return the name that a job's repetitions share, if its own is generated."""
    generated = member(job.item, "metadata", "generateName")
    return str(generated).rstrip("-") if generated else job.name


def _configuration(working: Sequence[Object], nodes: Mapping[str, Object]) -> dict[str, Cell]:
    names = {str(name) for pod in working if (name := member(pod, "spec", "nodeName"))}
    types: set[str] = set()
    place: dict[str, Cell] = {}
    for pod in working:
        node = nodes.get(str(member(pod, "spec", "nodeName")))
        labels = node_labels(pod, node)
        count, kind = gpus_in(main_container(pod))
        if count and (gpu_type := kind or gpu_type_in(labels)):
            types.add(gpu_type)
        place = place_in(labels, node)
    if len(types) > 1:
        raise RowError(
            f"The job ran on several types of GPU: {', '.join(sorted(types))}.",
            "A run has one; leave such jobs out with --skip-invalid.",
        )
    return {
        **place,
        "gpu_type": next(iter(types), None),
        "nodes": len(names) or None,
    }


def _gpu_count(pods: Sequence[Object]) -> int:
    return sum(gpus_in(main_container(pod))[0] for pod in pods)


def _work(environment: Mapping[str, str]) -> dict[str, Cell]:
    """Return what the variables of `trainfare profile` say of the work."""
    variables = {variable_of(name): name for name in ("workers", *WORK)}
    parameters = {
        name: f"param.{name.removeprefix(PARAMETER).lower()}"
        for name in environment
        if name.startswith(PARAMETER)
    }
    fields = {**variables, **parameters}
    return {fields[name]: value for name, value in environment.items() if name in fields}


def _facts(job: _Job, working: Sequence[Object], execution: _Execution) -> dict[str, Cell]:
    container = main_container(working[0])
    asked = instant(
        member(job.item, "status", "startTime")
        or member(working[0], "metadata", "creationTimestamp")
    )
    labels: dict[str, Any] = {
        f"{family}.{name}": value
        for source in (working[0], job.item)
        for family, path in (("label", "labels"), ("annotation", "annotations"))
        for name, value in texts_in(source, "metadata", path).items()
    }
    return {
        **labels,
        "elapsed_s": execution.seconds,
        "pending_s": (execution.start - asked).total_seconds() if asked else None,
        "pods": len(working),
        "gpus": _gpu_count(working),
        "cpus": amount_in(container, "cpu"),
        "memory_bytes": amount_in(container, "memory"),
        "image": str(container.get("image") or "") or None,
    }
