"""Turns a request into a question that a regressor can answer, or says what is wrong with it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from app.domain.alike import AlikeScenarios
from app.domain.columns import Repeated
from app.domain.configurations import (
    MAX_PARAMETER,
    Configuration,
    ParameterValue,
    Scenario,
)
from app.domain.errors import DomainError, Fault, InvalidRequestError, UnknownFieldError
from app.domain.flat_fields import PARAMETER
from app.domain.spelling import nearest_field
from app.pricing.gpus import resolve_gpu
from app.pricing.resolution import PriceBook
from app.services.served_regressors import ServedRegressor
from app.services.tables.implied_gpus import Hardware, implied_gpu
from models import FitReport, nodes_for

_GPU: Final = "gpu_type"
_INSTANCE: Final = "instance_type"


def may_need_prices(configuration: Configuration) -> bool:
    """Whether prices may tell the GPUs of a question's machines, or how many they have."""
    return configuration.instance_type is not None


class ScenarioResolver:
    """Puts scenarios into a regressor's terms; each hardware name is resolved once.

    Parameters
    ----------
    served
        The regressor.
    book
        Tells which GPUs a machine has, and how many, where the runs do not. None where no question
        needs that (see `may_need_prices`).
    """

    def __init__(self, served: ServedRegressor, book: PriceBook | None) -> None:
        self._report, self._placement = served.portfolio.report, served.portfolio.placement
        self._book, self._gpu_types = book, served.gpu_types
        self._numbers = {
            column.removeprefix(PARAMETER)
            for column in self._report.numeric_ranges
            if column.startswith(PARAMETER) and column not in self._report.category_levels
        }
        self._hardware: dict[Hardware, _ResolvedHardware] = {}

    def resolve(self, scenario: Scenario) -> Scenario:
        """Return a scenario in the regressor's terms: names of hardware, types of parameters.

        Nodes that are left open are filled in where all runs had the same workers per node, or
        where the number of GPUs of the machines determines them.

        Raises
        ------
        AmbiguousGpuError, UnknownGpuError
            If the GPU is neither measured for the workload nor known by a data sheet.
        UnknownFieldError
            If parameters are not the workload's; each is named.
        InvalidRequestError
            If a numeric parameter is given as a word, or is beyond `MAX_PARAMETER`.
        """
        configuration, report = self.resolve_configuration(scenario.configuration), self._report
        given = scenario.parameters
        if self._are_numbers(given):
            if configuration is scenario.configuration:
                return scenario
            return Scenario(configuration, scenario.work, given)
        _refuse_unknown(given, report)
        parameters = {name: _in_type(name, value, report) for name, value in given.items()}
        if configuration is scenario.configuration and parameters == given:
            return scenario
        return Scenario(configuration, scenario.work, parameters)

    def resolve_columns(self, scenarios: AlikeScenarios) -> AlikeScenarios | None:
        """Return what `resolve` does for scenarios of one form; None where each needs its own.

        That is the case if a GPU or a parameter is refused.
        """
        try:
            return AlikeScenarios(
                scenarios.configurations.made(self.resolve_configuration),
                scenarios.work,
                {name: self._typed(name, values) for name, values in scenarios.parameters.items()},
            )
        except DomainError:
            return None

    def _typed(self, name: str, column: Sequence[ParameterValue]) -> Sequence[ParameterValue]:
        """Return the values of a parameter in the type that the regressor takes it for.

        Raises
        ------
        UnknownFieldError, InvalidRequestError
            As for `resolve`.
        """
        values = column.distinct if isinstance(column, Repeated) else column
        if self._is_typed(name, values):
            return column
        _refuse_unknown({name: values[0]}, self._report)
        if isinstance(column, Repeated):
            return column.made(lambda value: _in_type(name, value, self._report))
        return [_in_type(name, value, self._report) for value in column]

    def _is_typed(self, name: str, values: Sequence[ParameterValue]) -> bool:
        """Whether all values of a parameter have the type that the regressor takes it for."""
        types = set(map(type, values))
        if str not in types:
            return name in self._numbers and all(map(_is_number, (min(values), max(values))))
        return types == {str} and PARAMETER + name in self._report.category_levels

    def density(self, gpu_type: str | None, instance_type: str | None) -> float | None:
        """Return how many workers of a question share a node, None where that is unknown."""
        return self._resolve_hardware((gpu_type, instance_type)).density

    def resolve_configuration(self, configuration: Configuration) -> Configuration:
        """Return a configuration with hardware in the regressor's terms, and nodes filled in.

        Raises
        ------
        AmbiguousGpuError, UnknownGpuError
            As for `resolve`.
        """
        key = (configuration.gpu_type, configuration.instance_type)
        resolved = self._resolve_hardware(key)
        nodes = configuration.nodes
        if nodes is None and resolved.density is not None:
            nodes = nodes_for(configuration.workers, resolved.density)
        if resolved.names == key and nodes == configuration.nodes:
            return configuration
        gpu_type, instance_type = resolved.names
        return replace(configuration, gpu_type=gpu_type, instance_type=instance_type, nodes=nodes)

    def _resolve_hardware(self, names: Hardware) -> "_ResolvedHardware":
        resolved = self._hardware.get(names)
        if resolved is None:
            resolved = self._hardware[names] = self._look_up(*names)
        return resolved

    def _look_up(self, gpu_type: str | None, instance_type: str | None) -> "_ResolvedHardware":
        """Return the regressor's names of hardware, and the workers per node."""
        gpu = self._gpu_of(gpu_type, instance_type)
        instance = _as_measured(instance_type, self._report)
        if self._placement is None:
            return _ResolvedHardware((gpu, instance), None)
        machine = Configuration(gpu, instance)
        gpus = None if self._book is None else self._book.gpus_of(machine)
        return _ResolvedHardware((gpu, instance), self._placement.density(gpu, instance, gpus))

    def _gpu_of(self, gpu_type: str | None, instance_type: str | None) -> str | None:
        """Return the regressor's name of a GPU: for the board that its machine has, as without it.

        Runs and questions may name the family of the board (V100), which without a machine may be
        another board.
        """
        measured = self._report.category_levels.get(_GPU, ())
        if instance_type is None or self._book is None:
            return None if gpu_type is None else resolve_gpu(gpu_type, measured)
        boards = self._book.gpu_types_of(instance_type)
        gpu = None if gpu_type is None else resolve_gpu(gpu_type, measured, boards)
        if gpu is not None and boards != {gpu}:
            return gpu
        return implied_gpu(instance_type, self._gpu_types, self._book) or gpu

    def _are_numbers(self, parameters: Mapping[str, ParameterValue]) -> bool:
        """Whether all parameters are numbers, as the regressor's are: the common case."""
        return all(
            name in self._numbers and _is_number(value) for name, value in parameters.items()
        )


class _ResolvedHardware(NamedTuple):
    """Hardware in the regressor's terms, with the workers per node where they are known."""

    names: Hardware
    density: float | None


def _as_measured(instance_type: str | None, report: FitReport) -> str | None:
    """Return an instance type as the runs spell it."""
    if instance_type is None:
        return None
    measured = report.category_levels.get(_INSTANCE, ())
    folded = instance_type.casefold()
    return next((name for name in measured if name.casefold() == folded), instance_type)


def to_features(scenario: Scenario, report: FitReport) -> Scenario:
    """Return the part of a question that the regressor should see; see `to_cluster`."""
    configuration = to_cluster(scenario.configuration, report)
    if configuration is scenario.configuration:
        return scenario
    return replace(scenario, configuration=configuration)


def to_cluster(configuration: Configuration, report: FitReport) -> Configuration:
    """Return the part of a configuration that the regressor should see.

    An instance type belongs to the price. Where no run names one and the GPU is known, it carries
    no information for the regressor.
    """
    if configuration.instance_type is None or _INSTANCE in report.category_levels:
        return configuration
    if configuration.gpu_type is None or _GPU not in report.category_levels:
        return configuration
    return replace(configuration, instance_type=None)


def _refuse_unknown(parameters: Mapping[str, ParameterValue], report: FitReport) -> None:
    known = report.category_levels.keys() | report.numeric_ranges.keys()
    unknown = sorted(name for name in parameters if PARAMETER + name not in known)
    if unknown:
        raise UnknownFieldError(
            [_unknown_parameter(name, parameters[name], report) for name in unknown]
        )


def _in_type(name: str, value: ParameterValue, report: FitReport) -> ParameterValue:
    levels = report.category_levels.get(PARAMETER + name)
    if levels is None:
        return as_number(name, value)
    return value if isinstance(value, str) else _as_level(value, levels)


def _as_level(value: float, levels: tuple[str, ...]) -> str:
    """Return the level that a number stands for: 16 and 16.0 are one, however the runs wrote it."""
    spellings = (f"{value:.12g}", str(value))
    return next((spelling for spelling in spellings if spelling in levels), spellings[0])


def _is_number(value: ParameterValue) -> bool:
    return not isinstance(value, str) and abs(value) <= MAX_PARAMETER


def as_number(name: str, value: ParameterValue) -> float:
    """Return the value of a numeric parameter.

    Raises
    ------
    InvalidRequestError
        If it is no number, or beyond `MAX_PARAMETER`.
    """
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if _is_number(number):
        return number
    fault = Fault(
        f"The parameter {name!r} of this workload is a number.",
        f"Send a finite number from -{MAX_PARAMETER:g} to {MAX_PARAMETER:g}.",
        field=PARAMETER + name,
        value=value,
    )
    raise InvalidRequestError(f"The parameter {name!r} is not a number.", [fault])


def _unknown_parameter(name: str, value: ParameterValue, report: FitReport) -> Fault:
    known = parameter_names(report)
    nearest = nearest_field(name, known)
    listed = ", ".join(known) if known else "none"
    hint = f"Did you mean {nearest!r}? " if nearest else ""
    return Fault(
        f"The regressor has no parameter {name!r}; its parameters: {listed}.",
        f"{hint}A parameter that only newer runs have needs a new fit.",
        field=PARAMETER + name,
        value=value,
    )


def parameter_names(report: FitReport) -> list[str]:
    """Return the names of the parameters that a regressor was fitted on."""
    return sorted(
        name.removeprefix(PARAMETER)
        for name in (*report.numeric_ranges, *report.category_levels)
        if name.startswith(PARAMETER)
    )
