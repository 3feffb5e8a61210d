"""The values in objects of Kubernetes: instants, quantities, containers, what nodes are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.importers.expressions import is_number
from trainfare_client.importers.faults import RowError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from trainfare_client.importers.expressions import Cell

Object = Mapping[str, Any]
"""An object of the API, or a part of one, as JSON."""

_QUANTITY: Final = re.compile(
    r"([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)(m|k|[KMGTP]i?)?", re.ASCII
)
_SCALES: Final = {
    "m": 1e-3,
    "k": 1e3,
    **{letter: 10.0 ** (3 * power) for power, letter in enumerate("KMGTP", start=1)},
    **{f"{letter}i": 2.0 ** (10 * power) for power, letter in enumerate("KMGTP", start=1)},
}
_DEFAULT_CONTAINER: Final = "kubectl.kubernetes.io/default-container"
_GPU: Final = re.compile(r"[^/]+/(?:gpu(?:\.shared)?|(?P<slice>mig-[\w.]+))", re.ASCII)
_GPU_LABELS: Final = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/instance-gpu-name",
    "k8s.amazonaws.com/accelerator",
    "gpu.nvidia.com/class",
)
_PLACES: Final = {
    "instance_type": ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    "region": ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
}
_PROVIDERS: Final = {"aws": "aws", "gce": "gcp", "azure": "azure"}
_SPOT_LABELS: Final = (
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)


def member(source: object, *path: str) -> Any:
    """Return what lies at a path of names, None if nothing does.

    Examples
    --------
    >>> member({"status": {"phase": "Failed"}}, "status", "phase"), member({}, "status", "phase")
    ('Failed', None)
    """
    for name in path:
        source = source.get(name) if isinstance(source, Mapping) else None
    return source


def objects_in(source: object, *path: str) -> list[Object]:
    """Return the objects in the list at a path."""
    found = member(source, *path)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def texts_in(source: object, *path: str) -> dict[str, str]:
    """Return the texts by name at a path, such as labels."""
    found = member(source, *path)
    pairs = found.items() if isinstance(found, Mapping) else ()
    return {str(name): str(value) for name, value in pairs if value is not None}


def instant(text: object) -> datetime | None:
    """Return an instant, None if there is none.

    Raises
    ------
    RowError
        If the text is no instant with a time zone.

    Examples
    --------
    >>> instant("2026-11-01T10:00:00Z").isoformat()
    '2026-11-01T10:00:00+00:00'
    """
    if text is None:
        return None
    try:
        # Python 3.10 reads no Z.
        found = datetime.fromisoformat(re.sub("Z$", "+00:00", str(text)))
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise RowError(f"{str(text)[:40]!r} is not an instant.", "Export with kubectl -o json.")
    return found


def quantity(text: object) -> float | None:
    """Return a quantity of a resource as a number, None if it is none.

    Examples
    --------
    >>> quantity("500m"), quantity("16Gi"), quantity("2e3"), quantity("many")
    (0.5, 17179869184.0, 2000.0, None)
    """
    found = _QUANTITY.fullmatch(str(text))
    return float(found[1]) * _SCALES.get(found[2] or "", 1.0) if found else None


def main_container(pod: Object) -> Object:
    """Return the container of a pod, or of its template, that does the work.

    It is the one that the pod names as its default, else the first: sidecars are added at the end.
    """
    containers = objects_in(pod, "spec", "containers")
    name = member(pod, "metadata", "annotations", _DEFAULT_CONTAINER)
    return next((each for each in containers if each.get("name") == name), (containers or [{}])[0])


def gpus_in(container: Object) -> tuple[int, str | None]:
    """Return how many GPUs a container asks for, and their kind where its name shows a slice.

    Examples
    --------
    >>> gpus_in({"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "16"}}})
    (8, None)
    >>> gpus_in({"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}})
    (1, 'mig-1g.5gb')
    """
    count, kind = 0, None
    for name, amount in _resources(container).items():
        if found := _GPU.fullmatch(name):
            number = quantity(amount) or 0.0
            count += int(number) if number.is_integer() else 0
            kind = found["slice"] or kind
    return count, kind


def amount_in(container: Object, resource: str) -> float | None:
    """Return how much of a resource, such as `cpu`, a container asks for."""
    return quantity(_resources(container).get(resource))


def _resources(container: Object) -> dict[str, str]:
    asked, limits = (texts_in(container, "resources", kind) for kind in ("requests", "limits"))
    return {**asked, **limits}


def environment_in(container: Object) -> dict[str, str]:
    """Return the variables that a container sets to a text."""
    return {
        str(each["name"]): str(each["value"])
        for each in objects_in(container, "env")
        if "name" in each and each.get("value") is not None
    }


def arguments_in(container: Object) -> dict[str, Cell]:
    """Return the options on a container's command line, those in a shell's script too.

    Examples
    --------
    >>> arguments_in({"command": ["python", "train.py"], "args": ["--lr=0.1", "--depth", "50"]})
    {'lr': '0.1', 'depth': '50'}
    >>> arguments_in({"command": ["sh", "-c", "python train.py --amp model.width=8"]})
    {'amp': 'true', 'model.width': '8'}
    >>> arguments_in({"args": ["--shift", "-0.5", "--amp", "-v"]})
    {'shift': '-0.5', 'amp': 'true'}
    """
    lines = [member(container, name) for name in ("command", "args")]
    words = [str(word) for line in lines if isinstance(line, list) for word in line]
    options: dict[str, Cell] = {}
    name = None
    for word in _words(words):
        option, equals, value = word.lstrip("-").partition("=")
        if equals and option:
            options[option] = value
            name = None
        elif word.startswith("--") and option:
            options[option] = "true"
            name = option
        else:
            if name is not None and (not word.startswith("-") or is_number(word)):
                options[name] = word
            name = None
    return options


def _words(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        yield from _split(word) if any(map(str.isspace, word)) else [word]


def _split(script: str) -> list[str]:
    try:
        return shlex.split(script)
    except ValueError:
        return [script]


def node_labels(pod: Object, node: Object | None) -> dict[str, str]:
    """Return the labels of a pod's node: its own, else those that the pod demands."""
    return {**_demanded(pod), **texts_in(node, "metadata", "labels")}


def _demanded(pod: Object) -> dict[str, str]:
    demanded = texts_in(pod, "spec", "nodeSelector")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = objects_in(pod, "spec", "affinity", "nodeAffinity", required, "nodeSelectorTerms")
    # Of several terms one is met; which one, only the node shows.
    for term in terms if len(terms) == 1 else ():
        for each in objects_in(term, "matchExpressions"):
            values = each.get("values")
            if each.get("operator") == "In" and isinstance(values, list) and len(values) == 1:
                demanded.setdefault(str(each.get("key")), str(values[0]))
    return demanded


def gpu_type_in(labels: Mapping[str, str]) -> str | None:
    """Return the type of GPU that labels of a node state."""
    return next((labels[name] for name in _GPU_LABELS if labels.get(name)), None)


def place_in(labels: Mapping[str, str], node: Object | None) -> dict[str, Cell]:
    """Return the instance type, place and purchase that a node's labels state."""
    place: dict[str, Cell] = {
        field: next((labels[name] for name in names if labels.get(name)), None)
        for field, names in _PLACES.items()
    }
    provider = str(member(node, "spec", "providerID") or "").partition("://")[0]
    is_spot = any(labels.get(name) == value for name, value in _SPOT_LABELS)
    return {
        **place,
        "provider": _PROVIDERS.get(provider),
        "purchase": "spot" if is_spot else None,
    }
