"""Reads JSON bodies: all are read alike, by routes that must be fast without the framework."""

from codecs import BOM_UTF8
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import override

from app.api.negotiation import JSON
from app.api.problems import refusal_of
from app.api.schemas.base import reference_to
from app.domain.errors import (
    DomainError,
    Fault,
    InvalidRequestError,
    UnsupportedMediaTypeError,
)
from app.services.uploads.separators import refuse_other_formats

Model = TypeVar("Model", bound=BaseModel)
_EXCERPT_CHARACTERS = 20


async def read_json(request: Request) -> Any:
    """Return the JSON document of a request.

    Raises
    ------
    UnsupportedMediaTypeError
        If the content type is not JSON.
    InvalidRequestError
        If the body is not JSON.
    """
    return parse_json(await read_body(request))


async def read_body(request: Request) -> bytes:
    """Return the body of a request that must be JSON.

    Raises
    ------
    UnsupportedMediaTypeError
        If the content type is not JSON.
    """
    content_type = request.headers.get("content-type", JSON)
    media_type = content_type.partition(";")[0].strip().casefold()
    if media_type != JSON and not media_type.endswith("+json"):
        raise UnsupportedMediaTypeError(f"Content-Type {content_type[:100]!r}", (JSON,))
    return await request.body()


def parse_json(body: bytes) -> Any:
    """Parse a body as JSON; a byte order mark before it is passed over, as in uploads.

    Raises
    ------
    InvalidRequestError
        If it is not valid JSON.
    """
    try:
        return orjson.loads(body.removeprefix(BOM_UTF8))
    except orjson.JSONDecodeError as error:
        refuse_other_formats(body[:4])
        raise _malformed_json(error) from error


def _malformed_json(error: orjson.JSONDecodeError) -> InvalidRequestError:
    """Return the refusal for a body that is not JSON, with the position of the error."""
    start = max(0, error.pos - _EXCERPT_CHARACTERS)
    fault = Fault(
        f"Malformed JSON at line {error.lineno}, column {error.colno}: {error.msg}.",
        "Send one JSON document in UTF-8.",
        value=error.doc[start : error.pos + _EXCERPT_CHARACTERS],
    )
    return InvalidRequestError("The body is not JSON.", [fault])


def check(adapter: TypeAdapter[Model], document: object, *, location: str = "body") -> Model:
    """Validate a document and return the request.

    Raises
    ------
    DomainError
        If it violates the schema; names each field.
    """
    try:
        return adapter.validate_python(document)
    except ValidationError as error:
        raise schema_refusal(error, location=location) from None


def schema_refusal(error: ValidationError, *, location: str) -> DomainError:
    """Return the refusal for a document that violates its schema."""
    entries = [{**entry, "loc": (location, *entry["loc"])} for entry in error.errors()]
    return refusal_of(entries)


def json_response(document: Mapping[str, Any]) -> Response:
    """Return a document as a response, without passing it through a schema."""
    return Response(orjson.dumps(document), media_type=JSON)


def request_body(model: type[BaseModel], example: object) -> dict[str, Any]:
    """Return the OpenAPI description of a body that a route reads by hand."""
    content = {"schema": reference_to(model), "example": example}
    return {"requestBody": {"required": True, "content": {JSON: content}}}


class _ReadRequest(Request):
    """A request whose body has been read."""

    document: Any = None

    @override
    async def json(self) -> Any:
        return self.document


class JsonBodyRoute(APIRoute):
    """A route whose body the framework validates, but does not read: that is done as elsewhere.

    The framework's way to read one differs in what it takes (NaN, UTF-16) and what it says.
    """

    @override
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle

        async def read_and_handle(request: Request) -> Response:
            read_request = _ReadRequest(request.scope, request.receive)
            if await read_request.body():
                read_request.document = await read_json(read_request)
            return await handle(read_request)

        return read_and_handle
