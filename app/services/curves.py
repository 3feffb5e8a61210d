"""Forecasts along one axis: the gain and cost of more workers, data or epochs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from app.domain.configurations import NUMERIC_FEATURES, ParameterValue, Scenario
from app.domain.curves import WHOLE_AXES, Axis, Curve, CurvePoint, MeasuredPoint, RunsAlong
from app.domain.errors import DomainError, Fault, InvalidRequestError
from app.domain.flat_fields import PARAMETER
from app.domain.forecasts import Forecast, ForecastRequest
from app.domain.identifiers import ProjectId
from app.domain.runs import RunColumns
from app.pricing.gpus import gpu_key
from app.services.answering.costs import extra_cost
from app.services.context import ServiceContext
from app.services.forecasts import ForecastService
from app.services.prices import PriceService
from app.services.searching.room import misplaced
from app.services.tables.implied_gpus import Hardware, machines_with
from app.services.workload_names import require_workload

_MAX_MEASURED: Final = 1000


class CurveService:
    """Use cases of forecasts along one axis."""

    def __init__(
        self, context: ServiceContext, forecasts: ForecastService, prices: PriceService
    ) -> None:
        self._context = context
        self._forecasts = forecasts
        self._prices = prices

    def curve(self, project_id: ProjectId, request: ForecastRequest, axis: Axis) -> Curve:
        """Return the forecasts along an axis.

        Raises
        ------
        DomainError
            If the question cannot be answered anywhere on the axis.
        """
        axis = self._with_room(project_id, request, axis)
        values = axis.values()
        requests = [
            replace(request, scenario=_at_value(request.scenario, axis.name, value))
            for value in values
        ]
        forecasts: list[Forecast] = []
        for answer in self._forecasts.forecast_many(project_id, requests):
            if isinstance(answer, DomainError):
                raise answer
            forecasts.append(answer)
        _refuse_category(forecasts[0], axis.name)
        points = _points(axis, values, forecasts)
        requested_nodes = request.scenario.configuration.nodes
        measured = self._measured(project_id, forecasts[0], axis, requested_nodes)
        return Curve(axis, tuple(points), measured)

    def _with_room(self, project_id: ProjectId, request: ForecastRequest, axis: Axis) -> Axis:
        """Return an axis of nodes whose start was left open from where each worker has a GPU."""
        if axis.name != "nodes" or not axis.is_start_open:
            return axis
        with self._context.database.reading() as stores:
            workload_id = require_workload(stores, project_id, request.workload).workload_id
            measured = stores.runs.measured_hardware(workload_id)
        on_one = replace(request.scenario.configuration, nodes=1)
        misfits = misplaced([on_one], measured, self._prices.book(project_id))
        fewest = float(misfits[0].nodes) if misfits else axis.start
        return replace(axis, start=min(fewest, axis.stop))

    def _measured(
        self, project_id: ProjectId, forecast: Forecast, axis: Axis, nodes: int | None
    ) -> tuple[MeasuredPoint, ...]:
        """Return what was measured along an axis, on as many nodes as the question states."""
        with self._context.database.reading() as stores:
            workload_id = require_workload(stores, project_id, forecast.workload).workload_id
            hardware = stores.runs.measured_hardware(workload_id)
        configuration = replace(forecast.scenario.configuration, nodes=nodes)
        features = _fixed_features(replace(forecast.scenario, configuration=configuration), axis)
        gpu_type, book = configuration.gpu_type, self._prices.book(project_id)
        machines = machines_with(gpu_type, hardware, book)
        wanted = RunsAlong(axis, features, _stored_names(gpu_type, hardware), machines)
        with self._context.database.reading() as stores:
            runs = stores.runs.newest_along(workload_id, wanted, limit=_MAX_MEASURED)
        points = zip(runs.run_ids, _cells(runs, axis.name), runs.duration_seconds, strict=True)
        return tuple(reversed([MeasuredPoint(*point) for point in points]))


def _at_value(scenario: Scenario, name: str, value: float) -> Scenario:
    if name == "workers":
        workers = replace(scenario.configuration, workers=round(value))
        return replace(scenario, configuration=workers)
    if name == "nodes":
        nodes = replace(scenario.configuration, nodes=round(value))
        return replace(scenario, configuration=nodes)
    if name in NUMERIC_FEATURES:
        return replace(scenario, work=replace(scenario.work, **{name: value}))
    if name.startswith(PARAMETER):
        changed_parameter = {name.removeprefix(PARAMETER): value}
        return replace(scenario, parameters={**scenario.parameters, **changed_parameter})
    known = ", ".join((*NUMERIC_FEATURES, f"{PARAMETER}NAME"))
    fault = Fault(f"{name!r} is not an axis.", f"Use one of {known}.", field="over", value=name)
    raise InvalidRequestError("There is no such axis.", [fault])


def _refuse_category(forecast: Forecast, name: str) -> None:
    """Refuse an axis along a category, whose levels have no order and nothing between them."""
    if not name.startswith(PARAMETER):
        return
    if isinstance(forecast.scenario.parameters[name.removeprefix(PARAMETER)], str):
        remedy = f"Ask for a grid: the what-if takes a comma list of {name}."
        fault = Fault(f"{name!r} is a category.", remedy, field="over", value=name)
        raise InvalidRequestError("A curve runs along a number.", [fault])


def _points(axis: Axis, values: Sequence[float], forecasts: Sequence[Forecast]) -> list[CurvePoint]:
    is_scaling = axis.name in WHOLE_AXES
    first = forecasts[0].duration_seconds.median
    points = []
    for index, (value, forecast) in enumerate(zip(values, forecasts, strict=True)):
        speed_up = first / forecast.duration_seconds.median if is_scaling else None
        points.append(
            CurvePoint(
                value=value,
                forecast=forecast,
                speed_up=speed_up,
                efficiency=None if speed_up is None else speed_up * values[0] / value,
                seconds_saved_per_money=_gain(forecasts[index - 1], forecast)
                if index and is_scaling
                else None,
            )
        )
    return points


def _gain(before: Forecast, after: Forecast) -> float | None:
    """Return the seconds saved per unit of money, None where the money buys nothing."""
    extra = extra_cost(before.cost, after.cost)
    if extra is None or extra <= Decimal(0):
        return None
    return (before.duration_seconds.median - after.duration_seconds.median) / float(extra)


def _stored_names(gpu_type: str | None, hardware: Iterable[Hardware]) -> set[str] | None:
    """Return the names that runs have for a GPU: older ones than the catalogue's may be stored."""
    if gpu_type is None:
        return None
    key = gpu_key(gpu_type)
    return {name for name, _ in hardware if name is not None and gpu_key(name) == key}


def _fixed_features(scenario: Scenario, axis: Axis) -> dict[str, ParameterValue]:
    """Return the features that the question gives, except its GPU and those of the axis."""
    configuration, work = scenario.configuration, scenario.work
    features: dict[str, Any] = {
        "instance_type": configuration.instance_type,
        "nodes": configuration.nodes,
        "workers": configuration.workers,
        "dataset_size": work.dataset_size,
        "batch_size": work.batch_size,
        "epochs": work.epochs,
        **{PARAMETER + name: value for name, value in scenario.parameters.items()},
    }
    return {
        name: value for name, value in features.items() if value is not None and name != axis.name
    }


def _cells(runs: RunColumns, name: str) -> list[float]:
    """Return the numbers of runs along an axis, which all have one."""
    if name.startswith(PARAMETER):
        column = [parameters[name.removeprefix(PARAMETER)] for parameters in runs.parameters]
    else:
        column = getattr(runs, name)
    return [float(value) for value in column]
