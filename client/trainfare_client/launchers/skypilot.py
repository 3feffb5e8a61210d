"""Tells SkyPilot how long a task takes on each of its resources.

SkyPilot compares prices of an hour, since it assumes that every task takes one. With
`ForecastPolicy` as the `admin_policy` of its API server, tasks that name a workload are compared
by what they will cost, or take, as a whole.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import sky
from sky import sky_logging

from trainfare_client._sync.client import Client
from trainfare_client.errors import TrainfareError
from trainfare_client.launchers.estimates import Estimate, estimate_nodes
from trainfare_client.launchers.tasks import Node, node_of
from trainfare_client.settings import read_settings
from trainfare_client.variables import WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainfare_client.settings import ClientSettings

_BOARDS: Final = {"A100": "A100-40GB", "V100": "V100-16GB"}
"""What SkyPilot's catalogues call by a name that several boards have."""

_HOUR_S: Final = 3600
_PATIENCE_S: Final = 10.0
# These choose no resources, or check a task that is asked about again when it is launched.
_WITHOUT_CHOICE: Final = ("validate", "exec")

# Below SkyPilot's own logger, whose records reach the terminal of who launches.
_logger = sky_logging.init_logger("sky.trainfare")


class ForecastPolicy(sky.AdminPolicy):
    """Gives each task that names a workload its forecasts; other tasks stay as they are.

    A task that cannot be forecast is launched all the same, with the reason in the log: SkyPilot
    then assumes one hour, as always. The settings come from the environment of the API server.
    """

    @classmethod
    def validate_and_mutate(cls, user_request: Any) -> Any:
        """Return the request, its task with forecasts if it names a workload."""
        task = user_request.task
        # What a client adds does not reach the server, which chooses the resources.
        if (
            not user_request.at_client_side
            and user_request.request_name.value not in _WITHOUT_CHOICE
            and task.envs.get(WORKLOAD)
        ):
            try:
                _log(task, add_forecasts(task))
            except Exception as error:  # noqa: BLE001 - SkyPilot would refuse the launch
                is_told = isinstance(error, TrainfareError)
                _logger.warning(
                    "Trainfare has no forecast of %s, so that SkyPilot assumes one hour. %s",
                    task.envs[WORKLOAD],
                    error if is_told else f"Unexpected: {error!r}.",
                )
        return sky.MutatedUserRequest(task, user_request.skypilot_config)


def add_forecasts(task: Any, *, settings: ClientSettings | None = None) -> tuple[Estimate, ...]:
    """Let SkyPilot's optimizer compare a task's resources by forecasts of its duration.

    Resources on which the task is more likely to run out of GPU memory than to fit are removed,
    unless all are. The estimates hold for this object only: they are lost where it is sent to an
    API server.

    Parameters
    ----------
    task
        A `sky.Task` whose environment names its workload and work.
    settings
        How the service is called; by default as the environment says.

    Returns
    -------
    tuple of Estimate
        One for each of the task's resources, in their order.

    Raises
    ------
    TrainfareError
        If one of the resources cannot be forecast; the task is unchanged then.
    """
    patient = settings or read_settings()
    resources = list(task.resources)
    nodes = [node_of(each) for each in resources]
    # People wait for a launch.
    hurried = replace(patient, timeout_s=min(patient.timeout_s, _PATIENCE_S), attempts=1)
    with Client(settings=hurried) as client:
        estimates = estimate_nodes(client, task.envs, nodes, task.num_nodes, _BOARDS)
    fitting = [
        each
        for each, estimate in zip(resources, estimates, strict=True)
        if not estimate.runs_out_of_memory
    ]
    if 0 < len(fitting) < len(resources):
        task.set_resources(type(task.resources)(fitting))
    task.set_time_estimator(_estimator(estimates))
    return estimates


def _estimator(estimates: Sequence[Estimate]) -> Callable[[Any], int]:
    """Return what tells the seconds of a task's resources, whatever SkyPilot has added to them."""
    seconds = {estimate.node: estimate.seconds for estimate in estimates}

    def estimated(resources: Any) -> int:
        node = node_of(resources)
        asked = (node, replace(node, instance_type=None), _of_instance(node))
        return next((seconds[each] for each in asked if each in seconds), _HOUR_S)

    return estimated


def _of_instance(node: Node) -> Node:
    """Return a node by its instance alone: SkyPilot adds the accelerators of its type."""
    return replace(node, gpu_type=None, gpus=0)


def _log(task: Any, estimates: Sequence[Estimate]) -> None:
    shortest_first = sorted(estimates, key=lambda estimate: estimate.median_s)
    told = "".join(f"\n  {estimate.text}" for estimate in shortest_first)
    _logger.info("Trainfare forecasts %s:%s", task.envs[WORKLOAD], told)
    for estimate in estimates:
        if estimate.runs_out_of_memory:
            _logger.warning(
                "Trainfare: %s probably runs out of GPU memory (fits with a probability of %.2g).",
                estimate.node.name,
                estimate.fits_probability,
            )
