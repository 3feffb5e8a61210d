"""Routers of the API: all their routes read queries and JSON bodies alike."""

from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute

from app.api.requests.bodies import JsonBodyRoute
from app.api.requests.known_queries import refuse_unknown_query


def operation_id(route: APIRoute) -> str:
    """Return the id of a route's operation, which generated clients make a name of."""
    return route.name


class ApiRouter(APIRouter):
    """The routes of one part of the API.

    Parameters
    ----------
    prefix
        The path before that of each route, from `/v1` on.
    tag
        The part's name in the OpenAPI document.
    """

    def __init__(self, prefix: str, tag: str) -> None:
        super().__init__(
            prefix=prefix,
            tags=[tag],
            dependencies=[Depends(refuse_unknown_query)],
            generate_unique_id_function=operation_id,
            route_class=JsonBodyRoute,
            # A body without a type is read as JSON.
            strict_content_type=False,
        )
