"""Questions of one form as columns; a row object is made only when it is needed."""

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import repeat
from typing import Any, Final

from typing_extensions import override

from app.domain.columns import Repeated, Rows
from app.domain.configurations import (
    Configuration,
    ParameterValue,
    Scenario,
    Work,
    amount_fact,
    configuration_fact,
    digest_of,
    parameter_fact,
)
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import RegressorKey

_REQUEST_MEMBERS: Final = tuple(field.name for field in fields(ForecastRequest))
_WORK_MEMBERS: Final = tuple(field.name for field in fields(Work))


class AlikeScenarios(Rows[Scenario]):
    """Scenarios with the same parameters, as columns with one value per scenario.

    Parameters
    ----------
    configurations
        The configurations; equal ones are one object.
    work
        The members of `Work`.
    parameters
        The further parameters, by name.
    """

    def __init__(
        self,
        configurations: Repeated[Configuration],
        work: Mapping[str, Sequence[float | None]],
        parameters: Mapping[str, Sequence[ParameterValue]],
    ) -> None:
        self.configurations, self.work, self.parameters = configurations, work, parameters

    @classmethod
    def of(
        cls,
        shared: Scenario,
        configurations: Repeated[Configuration],
        work: Mapping[str, Sequence[float | None]],
        parameters: Mapping[str, Sequence[ParameterValue]],
    ) -> "AlikeScenarios":
        """Return scenarios that share every member for which no column is given."""
        n = len(configurations)
        return cls(
            configurations,
            {
                name: work.get(name) or Repeated.alone(getattr(shared.work, name), n)
                for name in _WORK_MEMBERS
            },
            {
                name: parameters.get(name) or Repeated.alone(value, n)
                for name, value in shared.parameters.items()
            },
        )

    def with_configurations(self, configurations: Repeated[Configuration]) -> "AlikeScenarios":
        """Return the same scenarios on other configurations."""
        return AlikeScenarios(configurations, self.work, self.parameters)

    def digests(self) -> list[str]:
        """Return the `Scenario.digest` of each row."""
        parameters = sorted(self.parameters)
        facts = (
            self.configurations.made(configuration_fact),
            *(_map_column(amount_fact, column) for column in self.work.values()),
            *(
                _map_column(partial(parameter_fact, name), self.parameters[name])
                for name in parameters
            ),
        )
        return list(map(digest_of, zip(*facts, strict=True)))

    @override
    def __len__(self) -> int:
        return len(self.configurations)

    @override
    def row(self, index: int) -> Scenario:
        work = Work(*(column[index] for column in self.work.values()))
        parameters = {name: column[index] for name, column in self.parameters.items()}
        return Scenario(self.configurations[index], work, parameters)

    @override
    def __iter__(self) -> Iterator[Scenario]:
        names, columns = tuple(self.parameters), tuple(self.parameters.values())
        rows = zip(*columns, strict=True) if columns else repeat((), len(self))
        parameters = (dict(zip(names, row, strict=True)) for row in rows)
        return map(Scenario, self.configurations, map(Work, *self.work.values()), parameters)


class AlikeRequests(Rows[ForecastRequest]):
    """Requests that share all but their scenarios and a few columns.

    Parameters
    ----------
    shared
        The shared members; its scenario is ignored.
    scenarios
        The scenarios.
    columns
        Other members that differ, by name.
    """

    def __init__(
        self,
        shared: ForecastRequest,
        scenarios: AlikeScenarios,
        columns: Mapping[str, Sequence[Any]],
    ) -> None:
        self._shared, self._columns, self.scenarios = shared, columns, scenarios
        self._n_rows = len(scenarios)
        self._alone = array("q", bytes(8 * self._n_rows))

    def column(self, name: str) -> Sequence[Any]:
        """Return a member of all requests."""
        return self._columns.get(name) or Repeated([getattr(self._shared, name)], self._alone)

    @override
    def __len__(self) -> int:
        return self._n_rows

    @override
    def row(self, index: int) -> ForecastRequest:
        values = {name: getattr(self._shared, name) for name in _REQUEST_MEMBERS}
        values.update((name, column[index]) for name, column in self._columns.items())
        values["scenario"] = self.scenarios[index]
        return ForecastRequest(**values)

    @override
    def __iter__(self) -> Iterator[ForecastRequest]:
        columns = {**self._columns, "scenario": self.scenarios}
        return map(
            ForecastRequest,
            *(
                columns.get(name) or repeat(getattr(self._shared, name))
                for name in _REQUEST_MEMBERS
            ),
        )


def column_of(requests: Sequence[ForecastRequest], name: str) -> Sequence[Any]:
    """Return a member of all requests."""
    if isinstance(requests, AlikeRequests):
        return requests.column(name)
    return [getattr(request, name) for request in requests]


def rows_by_regressor(
    requests: Sequence[ForecastRequest],
) -> Mapping[RegressorKey, list[int]]:
    """Return the rows that ask each version of each workload's regressor, in the order asked."""
    key_columns = column_of(requests, "workload"), column_of(requests, "regressor_version")
    shared = [
        column.distinct[0]
        for column in key_columns
        if isinstance(column, Repeated) and len(column.distinct) == 1
    ]
    if requests and len(shared) == len(key_columns):
        return {(shared[0], shared[1]): list(range(len(requests)))}
    groups: defaultdict[RegressorKey, list[int]] = defaultdict(list)
    for row, regressor in enumerate(zip(*key_columns, strict=True)):
        groups[regressor].append(row)
    return groups


def digests_of(scenarios: Sequence[Scenario]) -> list[str]:
    """Return the digest of each of many scenarios."""
    if isinstance(scenarios, AlikeScenarios):
        return scenarios.digests()
    return [scenario.digest() for scenario in scenarios]


def _map_column(make: Callable[[Any], str], column: Sequence[Any]) -> Sequence[str]:
    if isinstance(column, Repeated):
        return column.made(make)
    return list(map(make, column))


def configurations_of(scenarios: Sequence[Scenario]) -> Sequence[Configuration]:
    """Return the configurations of scenarios."""
    if isinstance(scenarios, AlikeScenarios):
        return scenarios.configurations
    return [scenario.configuration for scenario in scenarios]
