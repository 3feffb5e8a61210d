"""What a launcher's task asks: its environment and its resources as questions for forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from trainfare_client.errors import SettingsError
from trainfare_client.variables import PARAMETER, WORK, WORKERS, variable_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trainfare_client.documents import Configuration, WorkloadDetail


class Resources(Protocol):
    """One node of a task, as SkyPilot describes it."""

    @property
    def accelerators(self) -> Mapping[str, float] | None:
        """The number of accelerators by type; None on a node without any, or not known."""

    @property
    def instance_type(self) -> str | None:
        """The type of instance, if it is known."""

    @property
    def use_spot(self) -> bool:
        """Whether the capacity may be interrupted."""


@dataclass(frozen=True)
class Node:
    """What one node of a task has, as far as durations depend on it.

    Attributes
    ----------
    gpu_type, gpus
        The type of accelerator and how many of it; None and 0 without accelerators.
    """

    gpu_type: str | None
    gpus: float
    instance_type: str | None
    is_spot: bool = False

    @property
    def name(self) -> str:
        """The node as people write it.

        Examples
        --------
        >>> Node("A100", 8, None).name, Node(None, 0, "m6i.large", is_spot=True).name
        ('A100:8', 'm6i.large spot')
        """
        gpus = self.gpu_type and f"{self.gpu_type}:{self.gpus:g}"
        names = [gpus, self.instance_type, "spot" if self.is_spot else None]
        return " ".join(name for name in names if name) or "any node"

    def configuration(self, nodes: int, workers: int | None) -> Configuration:
        """Return as many nodes of this kind as the configuration of a question.

        Without a number of `workers` there is one for each accelerator, or each node.

        Raises
        ------
        SettingsError
            If a node has a part of an accelerator, and the number of workers is not given.
        """
        per_node = self.gpus or 1
        if workers is None and per_node % 1:
            raise SettingsError(
                f"{self.name} is a part of an accelerator.",
                f"Set {WORKERS} to the number of processes.",
            )
        configuration: Configuration = {
            "nodes": nodes,
            "workers": workers if workers is not None else nodes * int(per_node),
        }
        if self.gpu_type is not None:
            configuration["gpu_type"] = self.gpu_type
        if self.instance_type is not None:
            configuration["instance_type"] = self.instance_type
        if self.is_spot:
            configuration["purchase"] = "spot"
        return configuration


def node_of(resources: Resources) -> Node:
    """Return what durations depend on of a node's description."""
    # SkyPilot knows no node with two types.
    gpu_type, gpus = next(iter((resources.accelerators or {}).items()), (None, 0.0))
    return Node(gpu_type, gpus, resources.instance_type, bool(resources.use_spot))


def question_of(
    environment: Mapping[str, str], workload: WorkloadDetail
) -> tuple[dict[str, Any], int | None]:
    """Return what a task's environment says of its work, and of the number of its workers.

    The variables are those that `trainfare profile` sets: `TRAINFARE_DATASET_SIZE`,
    `TRAINFARE_BATCH_SIZE`, `TRAINFARE_EPOCHS`, `TRAINFARE_WORKERS` and `TRAINFARE_PARAM_NAME`.

    Raises
    ------
    SettingsError
        If a variable is not a number and should be one, or names no parameter of the workload.
    """
    work = {
        name: _number(environment, variable)
        for name in WORK
        if (variable := variable_of(name)) in environment
    }
    question = {
        "workload": workload["workload"],
        "work": work,
        "parameters": _parameters(environment, workload["parameters"]),
    }
    workers = _number(environment, WORKERS) if WORKERS in environment else None
    if workers is not None and workers % 1:
        raise SettingsError(f"{WORKERS} {workers:g} is not a whole number.", "Correct it.")
    return question, None if workers is None else int(workers)


def _parameters(
    environment: Mapping[str, str], declared: Mapping[str, Mapping[str, Any]]
) -> dict[str, float | str]:
    names = {variable_of(f"param.{name}"): name for name in declared}
    parameters: dict[str, float | str] = {}
    for variable, text in environment.items():
        if not variable.startswith(PARAMETER):
            continue
        name = names.get(variable)
        if name is None:
            raise SettingsError(f"The workload has no parameter {variable}.", _known(names))
        is_number = declared[name]["type"] == "number"
        parameters[name] = _number(environment, variable) if is_number else text
    return parameters


def _known(names: Collection[str]) -> str:
    return f"It has {', '.join(sorted(names))}." if names else "It has none."


def _number(environment: Mapping[str, str], variable: str) -> float:
    try:
        return float(environment[variable])
    except ValueError:
        raise SettingsError(
            f"{variable} {environment[variable]!r} is not a number.", "Correct it."
        ) from None
