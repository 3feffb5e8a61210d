"""The plan request of a profiling session: from a plan file, or built from options."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from app.cli.connection import Connection, path_of
from app.cli.failures import RefusedError, UsageError
from app.cli.fields import SEARCH, split_fields, unknown_field, value_of, values_of
from app.cli.machine import Machine
from app.domain.flat_fields import COLUMN_PARAMETERS, CONFIGURATION, PARAMETER, WORK

_OPTIONS: Final = {"budget": "--budget", "price_per_hour": "--price-per-hour", "width": "--width"}
_UNKNOWN: Final = "unknown_workload"
_SEARCH_LISTS: Final = {
    **SEARCH,
    "dataset_size": "dataset_sizes",
    "batch_size": "batch_sizes",
    "epochs": "epochs",
}


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A workload and the body of its plan request."""

    workload: str
    body: dict[str, Any]


def read_plan(path: Path) -> PlanRequest:
    """Return the request contained in a plan file.

    Raises
    ------
    UsageError
        If the file is not a plan from the service.
    """
    try:
        document = orjson.loads(path.read_bytes())
        return PlanRequest(document["workload"], dict(document["request"]))
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        raise UsageError(
            f"{path} is not a profiling plan.",
            "Save the JSON answer of POST /v1/workloads/WORKLOAD/profiling-plans.",
        ) from None


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """The options that a request is built from."""

    target: Sequence[str] | None
    search: Sequence[str] | None
    budget: str | None
    price_per_hour: str | None
    width: float | None

    def request(
        self, workload: str | None, machine: Machine, connection: Connection
    ) -> PlanRequest:
        """Return the request; by default the numbers of workers are those that fit this machine.

        The service says which parameters are categories: as a category, 1.10 is not 1.1.

        Raises
        ------
        UsageError
            If the workload or the target is missing, or a field is unknown.
        """
        if workload is None or not self.target:
            raise UsageError(
                "There is no plan to measure.",
                "Give --plan plan.json, or --workload with --target workers=16 and the like.",
            )
        target_fields = split_fields(self.target, is_grid=False)
        search_fields = split_fields(self.search or [])
        has_parameters = any(
            name.startswith(PARAMETER) for name in {*target_fields, *search_fields}
        )
        categories = _categories(connection, workload) if has_parameters else frozenset()
        target = scenario_from(target_fields, categories)
        search = _search_from(search_fields, categories)
        max_workers = machine.workers(target["configuration"].get("gpu_type"))
        if "workers" not in search and max_workers:
            search["workers"] = [1 << power for power in range(max_workers.bit_length())]
        # One machine, whatever the node counts of other runs.
        search.setdefault("nodes", [1])
        body: dict[str, Any] = {"target": target, "search": search}
        body |= {"budget": self.budget} if self.budget is not None else {}
        body |= {"stop": {"width": self.width}} if self.width is not None else {}
        if self.price_per_hour is not None:
            body["pricing"] = {"price_per_hour": self.price_per_hour}
        return PlanRequest(workload, body)


def workload_or_refusal(connection: Connection, workload: str) -> dict[str, Any] | RefusedError:
    """Return a workload's document, or the service's refusal if it is unknown."""
    try:
        return dict(connection.get(path_of(workload), required="workload"))
    except RefusedError as error:
        if error.code != _UNKNOWN:
            raise
        return error


def _categories(connection: Connection, workload: str) -> frozenset[str]:
    """Return the field names of the parameters that are not numbers."""
    document = workload_or_refusal(connection, workload)
    if isinstance(document, RefusedError):
        return frozenset()
    parameters = document["parameters"].items()
    return frozenset(
        PARAMETER + name for name, parameter in parameters if parameter["type"] != "number"
    )


def scenario_from(
    fields: Mapping[str, str], categories: Collection[str] = ()
) -> dict[str, dict[str, Any]]:
    """Return configuration, work and parameters from flat fields.

    Raises
    ------
    UsageError
        If a field belongs to none of them.
    """
    scenario: dict[str, dict[str, Any]] = {"configuration": {}, "work": {}, "parameters": {}}
    for name, text in fields.items():
        if name in CONFIGURATION:
            scenario["configuration"][name] = value_of(name, text)
        elif name in WORK:
            scenario["work"][name] = value_of(name, text)
        elif name.startswith(PARAMETER):
            value = value_of(name, text, as_text=name in categories)
            scenario["parameters"][name.removeprefix(PARAMETER)] = value
        else:
            raise _unknown(name)
    return scenario


def _search_from(fields: Mapping[str, str], categories: Collection[str]) -> dict[str, Any]:
    search: dict[str, Any] = {}
    for name, text in fields.items():
        values = values_of(name, text, as_text=name in categories)
        if name in _SEARCH_LISTS:
            search[_SEARCH_LISTS[name]] = values
        elif name.startswith(PARAMETER):
            search.setdefault("parameters", {})[name.removeprefix(PARAMETER)] = values
        else:
            raise _unknown(name)
    return search


def _unknown(name: str) -> UsageError:
    return unknown_field(name, (*CONFIGURATION, *WORK, *COLUMN_PARAMETERS, "param.NAME"), _OPTIONS)
