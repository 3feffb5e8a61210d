"""Workloads, their regressor versions, their accuracy and profiling plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client.requests import delete, get, path_of, post, put, without_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainfare_client._sync.transport import Transport
    from trainfare_client.documents import (
        Accuracy,
        ProfilingPlan,
        Regressor,
        Workload,
        WorkloadDetail,
    )
    from trainfare_client.requests import Request


class Workloads:
    """The workloads of the key's project."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def declare(self, workload: str, **declaration: Any) -> WorkloadDetail:
        """Create a workload or replace its declaration.

        `declaration` may hold `description`, `dataset_unit`, `parameters`, `currency`, `labels`,
        `refit_policy` and `pooling`.
        """
        request: Request[WorkloadDetail] = put(path_of("workloads", workload), declaration)
        return self._transport.send(request)

    def get(self, workload: str) -> WorkloadDetail:
        """Return a workload with its measured range, regressor and last fit."""
        request: Request[WorkloadDetail] = get(path_of("workloads", workload))
        return self._transport.send(request)

    def remove(self, workload: str) -> None:
        """Remove a workload with its runs, fits, regressors and forecasts."""
        self._transport.send(delete(path_of("workloads", workload)))

    def all(self, *, page_size: int | None = None) -> Iterator[Workload]:
        """Yield all workloads, newest first."""
        return self._transport.items(path_of("workloads"), "workloads", {"page_size": page_size})

    def accuracy(self, workload: str, *, window: str | None = None) -> Accuracy:
        """Return how accurate earlier forecasts were; `window` such as `90d`."""
        path = path_of("workloads", workload, "accuracy")
        request: Request[Accuracy] = get(path, {"window": window})
        return self._transport.send(request)

    def plan_profiling(
        self,
        workload: str,
        target: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        runs: int | None = None,
        budget: str | None = None,
        **options: Any,
    ) -> ProfilingPlan:
        """Return which configurations to measure next to narrow the target's interval.

        `options` may hold `candidates`, `search`, `exclude`, `repeat`, `confidence`, `stop` and
        `pricing`.
        """
        body = {"target": target, **without_none(runs=runs, budget=budget), **options}
        request: Request[ProfilingPlan] = post(
            path_of("workloads", workload, "profiling-plans"), body
        )
        return self._transport.send(request)


class Regressors:
    """The registry of a workload's regressor versions."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def all(self, workload: str, *, page_size: int | None = None) -> Iterator[Regressor]:
        """Yield a workload's versions, newest first."""
        path = path_of("workloads", workload, "regressors")
        return self._transport.items(path, "regressors", {"page_size": page_size})

    def get(self, workload: str, version: int) -> Regressor:
        """Return a version: what it was fitted on and how accurate it was."""
        path = path_of("workloads", workload, "regressors", version)
        request: Request[Regressor] = get(path)
        return self._transport.send(request)

    def publish(self, workload: str, version: int) -> Regressor:
        """Make a version the one that answers forecasts."""
        path = path_of("workloads", workload, "regressors", version) + ":publish"
        request: Request[Regressor] = post(path, {})
        return self._transport.send(request)
