"""Reads forecast requests: one document, or thousands in one pass."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from app.api.requests.bodies import check
from app.api.requests.columns import (
    Column,
    Columns,
    NotColumnsError,
    checked,
    members_of,
    split_form,
)
from app.api.schemas.forecasts import (
    FORECAST_IN,
    ConfigurationIn,
    ForecastIn,
    WorkIn,
    to_parameters,
)
from app.api.schemas.typed_fields import Values, typed_fields
from app.domain.alike import AlikeRequests, AlikeScenarios
from app.domain.columns import Repeated, zip_columns
from app.domain.configurations import Configuration, Scenario, Work
from app.domain.errors import DomainError
from app.domain.forecasts import ForecastRequest
from app.domain.prices import PriceQuery
from app.services.recently_used import RecentlyUsed

_EMPTY: Final[Mapping[str, Any]] = {}
_Prices = dict[PriceQuery, PriceQuery]
_CACHE_SIZE: Final = 1024
_MAX_FORM_BYTES: Final = 4096
"""Bytes of the longest form that is cached; callers may send many longer ones."""

_by_form: Final = RecentlyUsed[bytes, ForecastRequest](_CACHE_SIZE)
"""The first question of each form (see `split_form`): it holds what all of that form share."""


@cache
def _schemas() -> tuple[TypeAdapter[Values], TypeAdapter[list[Values]]]:
    """Return the adapters for one document and for many; built at first use, not at start-up."""
    fields = typed_fields(ForecastIn, ConfigurationIn, WorkIn)
    return TypeAdapter(fields), TypeAdapter(list[fields])  # type: ignore[valid-type]  # made at run time


def read_forecast(document: object, *, location: str = "body") -> ForecastRequest:
    """Return the forecast request in a document.

    Raises
    ------
    DomainError
        If it violates the schema; names each field.
    """
    try:
        values = _schemas()[0].validate_python(document)
    except ValidationError:
        check(FORECAST_IN, document, location=location)  # raises, with the messages of the model
        raise
    return _Builder().build(values)


def read_forecasts(documents: Sequence[object]) -> list[ForecastRequest | DomainError]:
    """Return the request in each document, or its refusal."""
    builder = _Builder()
    try:
        return [builder.build(values) for values in _schemas()[1].validate_python(documents)]
    except ValidationError:
        return [_read(document) for document in documents]


def read_together(documents: Sequence[Any]) -> Sequence[ForecastRequest | DomainError]:
    """Return what `read_forecasts` does, faster for documents of the same form.

    What they share is cached, since later documents are likely to share it too.
    """
    try:
        return _read_by_form(documents) if documents else []
    except NotColumnsError:
        return read_forecasts(documents)


def _read_by_form(documents: Sequence[Any]) -> AlikeRequests:
    varied, form = split_form(members_of(documents))
    columns = checked(varied)
    shared = _by_form.get(form)
    if shared is None:
        shared = _first(documents[0])
        if len(form) <= _MAX_FORM_BYTES:
            _by_form.put(form, shared)
    return _alike(shared, columns, len(documents))


def read_alike(first: object, entries: Sequence[Mapping[str, Any]]) -> AlikeRequests:
    """Return the requests of entries of the same form.

    Parameters
    ----------
    first
        The first request, complete with all that the entries share.
    entries
        The entries' own members; `ref` is ignored.

    Raises
    ------
    NotColumnsError
        If they differ in form or one is refused: `read_forecasts` finds which.
    """
    return read_columns(first, members_of(entries), len(entries))


def read_columns(
    first: object, members: Mapping[str, Mapping[str, Column]], n_rows: int
) -> AlikeRequests:
    """Return the requests whose members are given as columns, like `read_alike`.

    Parameters
    ----------
    first
        The first request, complete with all that they share.
    members
        The entries' own values by group and name; values outside groups are under "".
    n_rows
        The number of requests.

    Raises
    ------
    NotColumnsError
        If one of them is refused: `read_forecasts` finds which.
    """
    columns = checked(members)
    return _alike(_first(first), columns, n_rows)


def _first(document: object) -> ForecastRequest:
    try:
        return read_forecast(document)
    except DomainError as error:
        raise NotColumnsError from error


def _alike(shared: ForecastRequest, columns: Mapping[str, Columns], n_rows: int) -> AlikeRequests:
    scenario = shared.scenario
    scenarios = AlikeScenarios.of(
        scenario,
        _configurations(scenario.configuration, columns.get("configuration", {}), n_rows),
        columns.get("work", {}),
        columns.get("parameters", {}),
    )
    return AlikeRequests(shared, scenarios, columns[""])


def _configurations(
    shared: Configuration, columns: Columns, n_rows: int
) -> Repeated[Configuration]:
    """Return the configurations; equal ones share an object."""
    if not columns:
        return Repeated.alone(shared, n_rows)
    if all(isinstance(column, Repeated) for column in columns.values()):
        keys = Repeated.equal(zip_columns(*columns.values()))
    else:
        keys = Repeated.equal(list(zip(*columns.values(), strict=True)))
    if len(keys.distinct) == 1:  # that of the first request
        return Repeated.alone(shared, n_rows)
    return keys.made(lambda key: replace(shared, **dict(zip(columns, key, strict=True))))


def _read(document: object) -> ForecastRequest | DomainError:
    try:
        return read_forecast(document)
    except DomainError as error:
        return error.with_traceback(None)  # its frames would keep the results alive


class _Builder:
    """Builds requests from validated values; equal configurations and prices share an object."""

    def __init__(self) -> None:
        self._configurations: dict[tuple[tuple[str, Any], ...], Configuration] = {}
        self._prices = _Prices()

    def build(self, values: Values) -> ForecastRequest:
        """Return the request with these values; nested parts are removed from `values`."""
        scenario = Scenario(
            self._configuration(values.pop("configuration", _EMPTY)),
            Work(**values.pop("work", _EMPTY)),
            to_parameters(values.pop("parameters", _EMPTY)),
        )
        pricing, energy = values.pop("pricing", None), values.pop("energy", None)
        if pricing is not None:
            query = pricing.to_domain()
            values["pricing"] = self._prices.setdefault(query, query)
            values["spot"] = pricing.spot.to_domain()
        if energy is not None:
            values["energy"] = energy.to_domain()
        return ForecastRequest(scenario=scenario, **values)

    def _configuration(self, values: Mapping[str, Any]) -> Configuration:
        key = tuple(values.items())
        configuration = self._configurations.get(key)
        if configuration is None:
            configuration = self._configurations[key] = Configuration(**values)
        return configuration
