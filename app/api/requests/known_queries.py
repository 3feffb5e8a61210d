"""Refuses unknown query parameters, so that a typo never silently becomes a default."""

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.types import Scope

from app.api.schemas.base import SHOWN_CHARACTERS, hint_at
from app.domain.errors import Fault, UnknownFieldError


async def refuse_unknown_query(request: Request) -> None:
    """Refuse a request with unknown query parameters; see `check_query`."""
    check_query(request.scope, request.scope["route"])


def check_query(scope: Scope, route: object) -> None:
    """Check that a route knows all query parameters, or reads the query itself.

    Raises
    ------
    UnknownFieldError
        If the query has unknown parameters; each is named.
    """
    if not scope["query_string"] or not isinstance(route, APIRoute):
        return
    known = _known_parameters(route)
    if known is None:
        return
    unknown = {
        name: value for name, value in Request(scope).query_params.items() if name not in known
    }
    if unknown:
        raise UnknownFieldError([_fault(name, value, known) for name, value in unknown.items()])


def _known_parameters(route: APIRoute) -> tuple[str, ...] | None:
    """Return a route's query parameters, None if the route or its schema checks them itself."""
    if "parameters" in (route.openapi_extra or {}):
        return None
    names = []
    for dependant in _with_dependencies(route.dependant):
        for field in dependant.query_params:
            annotation = field.field_info.annotation
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                return None
            names.append(field.alias)
    return tuple(names)


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
