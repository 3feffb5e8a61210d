"""The manifests are valid Kubernetes and say what the service reads and measures."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import pytest
import yaml
from fastapi.testclient import TestClient
from pydantic import ValidationError

from app.settings import Settings

_FOLDER: Final = Path(__file__).parents[2] / "deploy" / "kubernetes"
_VERSIONS: Final = ("1.31", "1.35")
_LAYERS: Final = ("base", "autoscaling", "ray")


def _kustomization(layer: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((_FOLDER / layer / "kustomization.yaml").read_text())
    return document


def _files(layer: str) -> Iterator[Path]:
    """Return the manifests that a layer names, those of the layers below first."""
    for name in _kustomization(layer)["resources"]:
        path = (_FOLDER / layer / name).resolve()
        if path.is_dir():
            yield from _files(path.name)
        else:
            yield path


def _manifests(layer: str) -> list[dict[str, Any]]:
    return [document for path in _files(layer) for document in yaml.safe_load_all(path.read_text())]


def _pods(layer: str) -> dict[str, dict[str, Any]]:
    return {
        manifest["metadata"]["name"]: manifest["spec"]["template"]["spec"]
        for manifest in _manifests(layer)
        if manifest["kind"] in {"Deployment", "Job"}
    }


def _containers(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod.get("initContainers", []), *pod["containers"]]


def _settings_of(container: dict[str, Any]) -> dict[str, str]:
    return {variable["name"]: variable.get("value", "") for variable in container.get("env", [])}


@pytest.mark.parametrize("version", _VERSIONS)
@pytest.mark.parametrize("layer", _LAYERS)
def test_manifests_follow_the_schemas(layer: str, version: str) -> None:
    manifests = _manifests(layer)

    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(names) == len(set(names)) > 0


def test_every_file_belongs_to_a_layer() -> None:
    named = {path for layer in _LAYERS for path in _files(layer)}
    patches = {
        (_FOLDER / layer / patch["path"]).resolve()
        for layer in _LAYERS
        for patch in _kustomization(layer).get("patches", [])
    }
    others = {"kustomization.yaml", "metrics-rule.yaml"}

    present = {path.resolve() for path in _FOLDER.rglob("*.yaml") if path.name not in others}

    assert present == named | patches


@pytest.mark.parametrize("layer", _LAYERS)
def test_containers_have_no_rights_and_bounds(layer: str) -> None:
    for name, pod in _pods(layer).items():
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        for container in _containers(pod):
            rights = container["securityContext"]
            assert rights["readOnlyRootFilesystem"] is True, name
            assert rights["allowPrivilegeEscalation"] is False, name
            assert rights["capabilities"] == {"drop": ["ALL"]}, name
            assert "memory" in container["resources"]["limits"], name


@pytest.mark.parametrize("layer", _LAYERS)
def test_pods_wait_for_what_their_process_needs(layer: str) -> None:
    waiting = {
        container["args"][0]: [each["args"] for each in pod.get("initContainers", [])]
        for pod in _pods(layer).values()
        for container in pod["containers"]
        if container["image"].startswith("trainfare") and "args" in container
    }

    assert waiting["serve"] == [["wait", "serve"]]
    assert waiting["fitter"] == [["wait", "fitter"]]
    assert waiting["migrate"] == []


def test_images_are_pinned() -> None:
    images = {
        image["name"]: image["newTag"]
        for layer in _LAYERS
        for image in _kustomization(layer).get("images", [])
    }
    used = {
        container["image"]
        for layer in _LAYERS
        for pod in _pods(layer).values()
        for container in _containers(pod)
    }

    assert used <= set(images)
    assert all(tag and tag != "latest" for tag in images.values())


def test_every_setting_is_one_of_the_service() -> None:
    setting_names = {f"TRAINFARE_{name.upper()}" for name in Settings.model_fields}
    [settings] = [manifest for manifest in _manifests("base") if manifest["kind"] == "ConfigMap"]
    patch = yaml.safe_load((_FOLDER / "ray" / "fitter.yaml").read_text())
    [container] = patch["spec"]["template"]["spec"]["containers"]

    variables = {*settings["data"], *_settings_of(container)}

    assert {name for name in variables if name.startswith("TRAINFARE_")} <= setting_names
    Settings(**{name.removeprefix("TRAINFARE_").lower(): v for name, v in settings["data"].items()})


def _service_links(layer: str) -> Iterator[tuple[str, str]]:
    """Yield what the kubelet sets in each container for the Services of its namespace."""
    for manifest in _manifests(layer):
        if manifest["kind"] != "Service" or manifest["spec"].get("clusterIP") == "None":
            continue
        prefix = manifest["metadata"]["name"].upper().replace("-", "_")
        port = manifest["spec"]["ports"][0]
        yield f"{prefix}_SERVICE_HOST", "10.96.0.12"
        yield f"{prefix}_SERVICE_PORT", str(port["port"])
        yield f"{prefix}_SERVICE_PORT_{port['name'].upper()}", str(port["port"])
        yield f"{prefix}_PORT", f"tcp://10.96.0.12:{port['port']}"
        yield f"{prefix}_PORT_{port['port']}_TCP", f"tcp://10.96.0.12:{port['port']}"


@pytest.mark.parametrize("layer", _LAYERS)
def test_settings_are_not_what_the_cluster_says_of_its_services(
    layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = dict(_service_links(layer))
    assert "TRAINFARE_PORT" in links

    for name, pod in _pods(layer).items():
        with monkeypatch.context() as environment:
            for variable, value in links.items() if pod.get("enableServiceLinks", True) else ():
                environment.setenv(variable, value)
            assert Settings().port == 8000, name


def test_what_the_cluster_says_of_its_service_is_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINFARE_PORT", "tcp://10.96.0.12:80")

    with pytest.raises(ValidationError, match="enableServiceLinks: false"):
        Settings()


def test_fitter_reaches_the_cluster_where_it_listens() -> None:
    manifests = {
        (manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in _manifests("ray")
    }
    ports = {
        port["name"]: port["port"]
        for port in manifests["Service", "trainfare-ray"]["spec"]["ports"]
    }
    patch = yaml.safe_load((_FOLDER / "ray" / "fitter.yaml").read_text())
    [container] = patch["spec"]["template"]["spec"]["containers"]

    address = _settings_of(container)["TRAINFARE_RAY_ADDRESS"]

    assert address == f"ray://trainfare-ray:{ports['client']}"
    assert patch["metadata"]["name"] in _pods("base")


def test_scaling_follows_a_metric_that_exists(client: TestClient) -> None:
    scalers = [
        manifest for manifest in _manifests("autoscaling") if "Autoscaler" in manifest["kind"]
    ]
    metrics = {
        metric["external"]["metric"]["name"]
        for scaler in scalers
        for metric in scaler["spec"]["metrics"]
        if metric["type"] == "External"
    }
    [rule] = yaml.safe_load((_FOLDER / "autoscaling" / "metrics-rule.yaml").read_text())["rules"][
        "external"
    ]

    exposed = client.get("/metrics").text

    assert metrics == {rule["name"]["as"]}
    assert all(f"\n{name} " in exposed for name in metrics)
    deployments = set(_pods("base"))
    assert {scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers} <= deployments


def test_apply_leaves_the_replicas_to_the_autoscalers() -> None:
    documents = _manifests("autoscaling")
    manifests = {
        (manifest["kind"], manifest["metadata"]["name"]): manifest for manifest in documents
    }
    scaled = {
        (manifest["spec"]["scaleTargetRef"]["kind"], manifest["spec"]["scaleTargetRef"]["name"])
        for (kind, _), manifest in manifests.items()
        if kind == "HorizontalPodAutoscaler"
    }

    for patch in _kustomization("autoscaling")["patches"]:
        [change] = yaml.safe_load((_FOLDER / "autoscaling" / patch["path"]).read_text())
        assert change == {"op": "remove", "path": "/spec/replicas"}
        # As kustomize does, this fails where there is nothing to remove.
        del manifests[patch["target"]["kind"], patch["target"]["name"]]["spec"]["replicas"]

    assert scaled
    assert all("replicas" not in manifests[target]["spec"] for target in scaled)
