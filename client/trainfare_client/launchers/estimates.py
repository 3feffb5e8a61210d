"""Forecasts of a task's duration on each kind of node that it may get."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trainfare_client.errors import TrainfareError, problem_error
from trainfare_client.launchers.tasks import Node, question_of
from trainfare_client.variables import WORKLOAD
from trainfare_client.wording import say_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainfare_client._sync.client import Client
    from trainfare_client.documents import BatchEntry, WorkloadDetail

_FIELDS: Final = ("duration_seconds", "feasibility", "basis")


class NoEstimateError(TrainfareError):
    """A task cannot be forecast on every kind of node, so that the kinds cannot be compared."""


@dataclass(frozen=True)
class Estimate:
    """The duration of a task on one kind of node.

    Attributes
    ----------
    lower_s, upper_s
        Bounds of the duration, with the confidence that the service uses by default.
    fits_probability
        How likely the task fits into the memory of the GPUs; None if nothing is known of it.
    """

    node: Node
    median_s: float
    lower_s: float
    upper_s: float
    basis: str
    fits_probability: float | None

    @property
    def seconds(self) -> int:
        """The median as a launcher takes it: whole seconds, at least one."""
        return max(1, round(self.median_s))

    @property
    def runs_out_of_memory(self) -> bool:
        """Whether the task is more likely to run out of GPU memory than to fit."""
        return self.fits_probability is not None and self.fits_probability < 0.5  # noqa: PLR2004

    @property
    def text(self) -> str:
        """The node and the duration as people read them."""
        median, lower, upper = map(say_seconds, (self.median_s, self.lower_s, self.upper_s))
        return f"{self.node.name} {median} s ({lower} to {upper} s, {self.basis})"


def estimate_nodes(
    client: Client,
    environment: Mapping[str, str],
    nodes: Sequence[Node],
    count: int,
    boards: Mapping[str, str],
) -> tuple[Estimate, ...]:
    """Return the durations of a task on `count` nodes of each of several kinds.

    Parameters
    ----------
    client
        The service to ask.
    environment
        The task's environment, with `TRAINFARE_WORKLOAD` and what describes the work.
    boards
        What the launcher means by the name of a type that has several boards.

    Raises
    ------
    NoEstimateError
        If one of the kinds cannot be forecast.
    TrainfareError
        If the environment is faulty, or the service does not answer.
    """
    workload = client.workloads.get(environment[WORKLOAD])
    question, workers = question_of(environment, workload)
    questions = [
        {
            **question,
            "ref": place,
            "configuration": _as_measured(node, workload, boards).configuration(count, workers),
        }
        for place, node in enumerate(nodes)
    ]
    answers = client.forecasts.batch(questions, fields=list(_FIELDS))["forecasts"]
    return tuple(_estimate(node, answer) for node, answer in zip(nodes, answers, strict=True))


def _as_measured(node: Node, workload: WorkloadDetail, boards: Mapping[str, str]) -> Node:
    """Return a node with the name of its GPU under which the workload was measured."""
    measured = workload["features"].get("gpu_type", {}).get("values", ())
    board = boards.get(node.gpu_type or "")
    return node if board is None or node.gpu_type in measured else replace(node, gpu_type=board)


def _estimate(node: Node, answer: BatchEntry) -> Estimate:
    if "problem" in answer:
        refusal = problem_error(answer["problem"]["status"], answer["problem"])
        raise NoEstimateError(f"{node.name}: {refusal.detail}", refusal.remedy)
    forecast = answer["forecast"]
    band = forecast["duration_seconds"]
    return Estimate(
        node=node,
        median_s=band["median"],
        lower_s=band["lower"],
        upper_s=band["upper"],
        basis=forecast["basis"],
        fits_probability=forecast["feasibility"]["fits_probability"],
    )
