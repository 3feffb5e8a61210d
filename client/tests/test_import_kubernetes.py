"""Jobs of Kubernetes as kubectl prints them."""

import json
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from client.tests.importing import Importing, written
from client.tests.kubernetes_objects import UID, Object, exported, job, node, pod, template

_INDEX = "batch.kubernetes.io/job-completion-index"
_KUBEFLOW = "training.kubeflow.org/"


def _indexed(owner: Object, index: int) -> dict[str, str]:
    return {"batch.kubernetes.io/job-name": owner["metadata"]["name"], _INDEX: str(index)}


def test_objects_of_these_tests_are_of_the_api() -> None:
    for described in (job(), pod(), node(), pod(exit_code=None), job(condition="Failed:X")):
        kubernetes_validate.validate(described, "1.34", strict=True)


def test_job_becomes_a_run_with_the_time_of_its_container(
    importing: Importing, tmp_path: Path
) -> None:
    (row,) = importing.dry("kubernetes", exported(tmp_path, job(), pod(), node()))

    assert row == {
        "workload": "train-7",
        "external_id": f"kubernetes:{UID}1",
        "status": "succeeded",
        "duration_seconds": "3030.0",
        "started_at": "2026-11-01T10:05:00+00:00",
        "gpu_type": "NVIDIA-A100-SXM4-80GB",
        "instance_type": "p4de.24xlarge",
        "provider": "aws",
        "region": "eu-west-1",
        "nodes": "1",
        "workers": "4",
        "label.job": "train-7",
        "label.namespace": "ml",
    }


def test_variables_of_a_profile_and_chosen_options_describe_the_work(
    importing: Importing, tmp_path: Path
) -> None:
    described = template(
        TRAINFARE_WORKLOAD="Big CNN",
        TRAINFARE_DATASET_SIZE="50000",
        TRAINFARE_EPOCHS="3",
        TRAINFARE_PARAM_PRECISION="bf16",
    )
    owner = job(template=described)
    arguments = ["--params", "lr,absent", "--map", "batch_size=[arg.batch-size]*gpus"]

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner, pod(of=owner)), *arguments)

    assert row["workload"] == "big-cnn"
    assert (row["dataset_size"], row["epochs"], row["batch_size"]) == ("50000", "3", "1024.0")
    assert {name: cell for name, cell in row.items() if name.startswith("param.")} == {
        "param.lr": "0.1",
        "param.precision": "bf16",
    }


def test_source_s_own_values_can_be_mapped(importing: Importing, tmp_path: Path) -> None:
    described = template(SEED="7")
    described["metadata"] = {"labels": {"team": "vision"}, "annotations": {"ticket": "T-1"}}
    owner = job(template=described)
    labelled = pod(of=owner)
    labelled["metadata"]["labels"]["team"] = "vision"
    labelled["metadata"]["annotations"] = {"ticket": "T-1"}
    maps = {
        "param.seed": "env.SEED",
        "label.team": "label.team",
        "label.ticket": "annotation.ticket",
        "label.image": "image",
        "param.cpus": "cpus",
        "param.memory_gib": "memory_bytes/1073741824",
        "phase.pending_seconds": "pending_s",
    }
    arguments = [word for field, source in maps.items() for word in ("--map", f"{field}={source}")]

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner, labelled), *arguments)

    assert {field: row[field] for field in maps} == {
        "param.seed": "7",
        "label.team": "vision",
        "label.ticket": "T-1",
        "label.image": "registry.example/train:7",
        "param.cpus": "8.0",
        "param.memory_gib": "64.0",
        "phase.pending_seconds": "300.0",
    }


def test_pods_beside_each_other_are_the_workers_of_one_run(
    importing: Importing, tmp_path: Path
) -> None:
    owner = job(parallelism=2, completions=2, completionMode="Indexed")
    pods = [
        pod(1, of=owner, labels=_indexed(owner, 0), start="10:05:00", end="10:50:00"),
        pod(2, of=owner, labels=_indexed(owner, 1), node_name="n2", start="10:06:00"),
    ]

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner, *pods, node(), node("n2")))

    assert (row["workers"], row["nodes"], row["duration_seconds"]) == ("8", "2", "3030.0")


@pytest.mark.parametrize("indexed", [False, True])
def test_only_the_last_attempt_counts(
    importing: Importing, tmp_path: Path, *, indexed: bool
) -> None:
    owner = job()
    labels = _indexed(owner, 0) if indexed else None
    failed = pod(1, of=owner, start="10:01:00", end="10:02:00", exit_code=1, labels=labels)
    succeeded = pod(2, of=owner, start="10:10:00", end="10:20:00", labels=labels)

    (row,) = importing.dry("kubernetes", exported(tmp_path, succeeded, owner, failed))

    assert (row["status"], row["duration_seconds"]) == ("succeeded", "600.0")
    assert row["started_at"] == "2026-11-01T10:10:00+00:00"


@pytest.mark.parametrize(
    ("condition", "changes", "status"),
    [
        ("Complete", {}, "succeeded"),
        ("Failed:BackoffLimitExceeded", {"exit_code": 1}, "failed"),
        ("Failed:BackoffLimitExceeded", {"exit_code": 137, "reason": "OOMKilled"}, "out_of_memory"),
        ("Failed:DeadlineExceeded", {"exit_code": 143}, "timed_out"),
        ("", {}, "succeeded"),
        ("", {"exit_code": 3}, "failed"),
    ],
)
def test_ends_become_outcomes(
    importing: Importing, tmp_path: Path, condition: str, changes: dict[str, Any], status: str
) -> None:
    owner = job(condition=condition)

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner, pod(of=owner, **changes)))

    assert row["status"] == status


@pytest.mark.parametrize(
    "told",
    [
        {"reason": "Evicted"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionBy"}]},
    ],
)
def test_disrupted_pods_were_preempted(
    importing: Importing, tmp_path: Path, told: dict[str, Any]
) -> None:
    owner = job(condition="Failed:BackoffLimitExceeded")
    disrupted = pod(of=owner, exit_code=137)
    disrupted["status"] |= told

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner, disrupted))

    assert row["status"] == "preempted"


def test_job_whose_pods_are_gone_tells_its_own_times(importing: Importing, tmp_path: Path) -> None:
    demanding = template()
    demanding["spec"]["nodeSelector"] = {"cloud.google.com/gke-accelerator": "nvidia-l4"}
    owner = job(parallelism=3, completions=3, template=demanding)

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner))

    assert (row["workers"], row["gpu_type"], row["duration_seconds"]) == (
        "12",
        "nvidia-l4",
        "3600.0",
    )
    assert "nodes" not in row


def test_type_of_gpu_may_stand_in_an_affinity(importing: Importing, tmp_path: Path) -> None:
    demanding = template()
    term = {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["Tesla-T4"]}
    demanding["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [term]}]
            }
        }
    }

    (row,) = importing.dry("kubernetes", exported(tmp_path, job(template=demanding)))

    assert row["gpu_type"] == "Tesla-T4"


def test_slice_of_a_gpu_is_a_type_of_its_own(importing: Importing, tmp_path: Path) -> None:
    sliced = template(gpus=0)
    sliced["spec"]["containers"][0]["resources"]["limits"] = {"nvidia.com/mig-1g.5gb": "1"}
    owner = job(template=sliced)

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner, pod(of=owner), node()))

    assert (row["workers"], row["gpu_type"]) == ("1", "mig-1g.5gb")


def test_nodes_of_processors_have_a_worker_for_each_pod(
    importing: Importing, tmp_path: Path
) -> None:
    owner = job(parallelism=2, completions=2, template=template(gpus=0))
    pods = [pod(number, of=owner, node_name=f"n{number}") for number in (1, 2)]

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner, *pods, node()))

    assert (row["workers"], row["nodes"]) == ("2", "2")
    assert "gpu_type" not in row


@pytest.mark.parametrize(
    ("label", "value"),
    [
        ("karpenter.sh/capacity-type", "spot"),
        ("eks.amazonaws.com/capacityType", "SPOT"),
        ("cloud.google.com/gke-spot", "true"),
        ("kubernetes.azure.com/scalesetpriority", "spot"),
    ],
)
def test_spot_capacity_is_read_from_the_node(
    importing: Importing, tmp_path: Path, label: str, value: str
) -> None:
    (row,) = importing.dry("kubernetes", exported(tmp_path, job(), pod(), node(**{label: value})))

    assert row["purchase"] == "spot"


def _pytorch_job(replicas: int = 1, **status: Any) -> Object:
    specs = {
        "Master": {"replicas": 1, "template": template(gpus=0)},
        "Worker": {"replicas": replicas, "template": template()},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "bert", "namespace": "ml", "uid": f"{UID}9"},
        "spec": {"pytorchReplicaSpecs": specs},
        "status": status,
    }


def _replica(owner: Object, kind: str, index: int, **changes: Any) -> Object:
    names = {"job-name": "bert", "replica-type": kind, "replica-index": str(index)}
    labels = {_KUBEFLOW + name: value for name, value in names.items()}
    described = owner["spec"]["pytorchReplicaSpecs"][kind.title()]["template"]
    number = index if kind == "worker" else 9
    return pod(number, of=owner, labels=labels, template_=described, **changes)


@pytest.mark.parametrize("with_object", [True, False])
def test_job_of_kubeflow_is_its_replicas(
    importing: Importing, tmp_path: Path, *, with_object: bool
) -> None:
    owner = _pytorch_job(2)
    pods = [
        _replica(owner, "master", 0, start="10:00:00", end="11:00:00"),
        _replica(owner, "worker", 0),
        _replica(owner, "worker", 1, node_name="n2"),
    ]

    (row,) = importing.dry("kubernetes", exported(tmp_path, *pods, *([owner] * with_object)))

    assert (row["workload"], row["workers"], row["nodes"]) == ("bert", "8", "2")
    assert (row["status"], row["duration_seconds"]) == ("succeeded", "3600.0")


def test_job_set_is_one_run(importing: Importing, tmp_path: Path) -> None:
    child = job("set-workers-0", parallelism=2, completions=2)
    whole = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "set", "namespace": "ml", "uid": f"{UID}5"},
        "spec": {"replicatedJobs": [{"name": "workers", "template": {"spec": child["spec"]}}]},
        "status": {"conditions": [{"type": "Completed", "status": "True"}]},
    }
    names = {"jobset-name": "set", "jobset-uid": f"{UID}5", "job-index": "0"}
    labels = {f"jobset.sigs.k8s.io/{name}": value for name, value in names.items()}
    child["metadata"]["labels"] = labels
    pods = [pod(index, of=child, labels={**labels, **_indexed(child, index)}) for index in (0, 1)]

    (row,) = importing.dry("kubernetes", exported(tmp_path, child, *pods, whole))

    assert (row["external_id"], row["workers"]) == (f"kubernetes:{UID}5", "8")


def test_what_is_no_run_is_left_out_and_counted(importing: Importing, tmp_path: Path) -> None:
    going_on = job("going-on", 2, condition="")
    queue = job("queue", 3, completions=10)
    gone = _pytorch_job(2, conditions=[{"type": "Succeeded", "status": "True"}])
    foreign = job("foreign", 4)
    instant = job("instant", 6)
    stuck = job("stuck", 9, condition="Failed:BackoffLimitExceeded")
    unstarted = pod(of=stuck, exit_code=128, reason="StartError")
    state = unstarted["status"]["containerStatuses"][1]["state"]
    state["terminated"]["startedAt"] = "1970-01-01T00:00:00Z"
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}
    file = exported(
        tmp_path,
        job(),
        pod(),
        going_on,
        pod(of=going_on, exit_code=None),
        queue,
        gone,
        _replica(gone, "master", 0),
        pod(of=foreign),
        instant,
        pod(of=instant, start="10:00:00", end="10:00:00"),
        stuck,
        unstarted,
        pod(7, of=job("alone", 8), labels={}),
        service,
    )

    answer = importing("kubernetes", file, "--dry-run")

    assert [row["workload"] for row in answer.rows] == ["train-7"]
    for reason in (
        "jobs that have not ended",
        "jobs whose pods run one after the other, which are not one configuration",
        "jobs some of whose pods are gone",
        "jobs of which only pods were exported",
        "jobs that never ran, or for less than a second",
        "pods of no job",
        "objects that are no jobs, pods or nodes",
    ):
        assert reason in answer.err


def test_exports_may_overlap(importing: Importing, tmp_path: Path) -> None:
    owner = job(parallelism=2, completions=2)
    pods = [pod(1, of=owner), pod(2, of=owner)]
    first = exported(tmp_path, owner, *pods)
    second = exported(tmp_path, node(), owner, pods[0], name="second.json")

    (row,) = importing.dry("kubernetes", first, second)

    assert (row["workers"], row["instance_type"]) == ("8", "p4de.24xlarge")


def test_name_that_is_generated_names_no_workload(importing: Importing, tmp_path: Path) -> None:
    owner = job("train-x7k2p")
    owner["metadata"]["generateName"] = "train-"

    (row,) = importing.dry("kubernetes", exported(tmp_path, owner, pod(of=owner)))

    assert row["workload"] == "train"


def test_job_on_two_types_of_gpu_is_a_bad_row(importing: Importing, tmp_path: Path) -> None:
    owner = job(parallelism=2, completions=2)
    pods = [pod(1, of=owner), pod(2, of=owner, node_name="n2")]
    other = node("n2", **{"nvidia.com/gpu.product": "Tesla-T4"})

    answer = importing("kubernetes", exported(tmp_path, owner, *pods, node(), other), "--dry-run")

    assert answer.exit_code == 1
    assert "job ml/train-7" in answer.err
    assert "several types of GPU: NVIDIA-A100-SXM4-80GB, Tesla-T4" in answer.err


def test_single_object_is_an_export(importing: Importing, tmp_path: Path) -> None:
    (row,) = importing.dry("kubernetes", written(tmp_path / "job.json", json.dumps(job())))

    assert row["duration_seconds"] == "3600.0"


def test_list_of_the_api_is_an_export(importing: Importing, tmp_path: Path) -> None:
    described = {name: value for name, value in job().items() if name not in {"kind", "apiVersion"}}
    listed = {"apiVersion": "batch/v1", "kind": "JobList", "items": [described]}

    (row,) = importing.dry("kubernetes", written(tmp_path / "jobs.json", json.dumps(listed)))

    assert row["workload"] == "train-7"


@pytest.mark.parametrize("content", ['{"a": 1}', "[]", "7"])
def test_other_documents_are_refused_with_the_command(
    content: str, importing: Importing, tmp_path: Path
) -> None:
    answer = importing("kubernetes", written(tmp_path / "other.json", content), "--dry-run")

    assert answer.exit_code == 1
    assert "It holds no objects of Kubernetes" in answer.err
    assert "kubectl get jobs,pods,nodes" in answer.err
