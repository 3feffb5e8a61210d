"""Priors to compare: none, data sheets, public workloads, the project's other workloads, both."""

from collections.abc import Iterable, Mapping

from benchmarks.pooling.workloads import MeasuredWorkload
from models import HardwareDescription, PooledPrior, WorkloadSummary, summarise

ARMS = ("alone", "specifications", "factory", "project", "both")
"""The first knows neither data sheets nor other workloads."""


class Priors:
    """Summaries of all workloads, and the prior of each target in each arm.

    A data set stands for a project. The factory prior of a target excludes its data set, so that
    the prior does not already contain the target's own runs. Of the project's other workloads,
    the `max_contributors` with the most configurations count.
    """

    def __init__(
        self,
        summaries: Mapping[tuple[str, str], WorkloadSummary],
        hardware: Mapping[str, HardwareDescription],
        max_contributors: int | None = None,
    ) -> None:
        self._summaries, self._hardware = summaries, hardware
        self._max_contributors = max_contributors
        self._known: dict[tuple[str, str, str], PooledPrior] = {}

    def prior(self, arm: str, folder: str, workload: str) -> PooledPrior | None:
        """Return the prior of a target in an arm, None for the templates alone."""
        if arm in ("alone", "specifications"):
            return None
        # The factory prior is the same for all workloads of a data set.
        key = (arm, folder, workload if arm != "factory" else "")
        if key not in self._known:
            own = self._project(folder, workload) if arm != "factory" else []
            public = factory_summaries(self._summaries, folder) if arm != "project" else []
            self._known[key] = PooledPrior.from_summaries(own, self._hardware, public)
        return self._known[key]

    def hardware(self, arm: str) -> Mapping[str, HardwareDescription]:
        """Return the data sheets that an arm knows."""
        return {} if arm == "alone" else self._hardware

    def _project(self, folder: str, workload: str) -> list[WorkloadSummary]:
        others = [
            summary
            for (other, name), summary in self._summaries.items()
            if other == folder and name != workload
        ]
        others.sort(key=lambda summary: -summary.n_configurations)
        return others[: self._max_contributors]


def factory_summaries(
    summaries: Mapping[tuple[str, str], WorkloadSummary], leave_out: str | None
) -> list[WorkloadSummary]:
    """Return anonymous summaries of all data sets but one."""
    kept = [summary for (folder, _), summary in summaries.items() if folder != leave_out]
    return [summary.anonymous(f"public-{index:03d}") for index, summary in enumerate(kept)]


def summarise_all(
    workloads: Iterable[MeasuredWorkload],
) -> dict[tuple[str, str], WorkloadSummary]:
    """Return the summary of every workload, by data set and name."""
    return {(item.folder, item.name): summarise(item.table(), item.name) for item in workloads}
