"""Refuses query parameters that are unknown or have several values: none is ignored silently."""

from collections.abc import Iterator, Mapping

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.types import Scope

from app.api.schemas.base import SHOWN_CHARACTERS, hint_at, names_of
from app.domain.errors import Fault, InvalidRequestError, UnknownFieldError


async def refuse_unknown_query(request: Request) -> None:
    """Refuse a request with a query that its route would not read whole; see `check_query`."""
    check_query(request.scope, request.scope["route"])


def check_query(scope: Scope, route: object) -> None:
    """Check that a route knows all query parameters, or reads the query itself.

    Raises
    ------
    UnknownFieldError
        If the query has unknown parameters; each is named.
    InvalidRequestError
        If a parameter that takes one value has several; each is named.
    """
    if not scope["query_string"] or not isinstance(route, APIRoute):
        return
    query, parameters = Request(scope).query_params, _parameters(route)
    _refuse_several_values(query, parameters)
    if "parameters" in (route.openapi_extra or {}) or any(parameters.values()):
        return
    known = tuple(parameters)
    unknown = {name: value for name, value in query.items() if name not in known}
    if unknown:
        raise UnknownFieldError([_fault(name, value, known) for name, value in unknown.items()])


def _parameters(route: APIRoute) -> dict[str, bool]:
    """Return a route's query parameters of one value, and whether a schema checks each."""
    parameters: dict[str, bool] = {}
    for dependant in _with_dependencies(route.dependant):
        for field in dependant.query_params:
            annotation = field.field_info.annotation
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                parameters |= dict.fromkeys(names_of(annotation), True)
            else:
                parameters[field.alias] = False
    return parameters


def _refuse_several_values(query: QueryParams, parameters: Mapping[str, bool]) -> None:
    """Refuse several values of a parameter that takes one: the framework would take the last."""
    several = [name for name in parameters if len(set(query.getlist(name))) > 1]
    if several:
        faults = [
            Fault("The query has several values of it.", "Send one.", field=n) for n in several
        ]
        raise InvalidRequestError("A query parameter takes one value here.", faults)


def _with_dependencies(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for dependency in dependant.dependencies:
        yield from _with_dependencies(dependency)


def _fault(name: str, value: str, known: tuple[str, ...]) -> Fault:
    hint, remedy = hint_at(name, known)
    if not known:
        hint = "there are no query parameters here."
    shown = name[:SHOWN_CHARACTERS]
    message = f"Unknown query parameter {shown!r}: {hint}"
    return Fault(message, remedy, field=shown, value=value[:SHOWN_CHARACTERS])
