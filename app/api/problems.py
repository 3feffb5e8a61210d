"""Turns every error into an RFC 9457 problem."""

import json
import logging
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any
from urllib.parse import quote

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from app.api.problem_kinds import INTERNAL, KINDS, METHOD_NOT_ALLOWED, ProblemKind, kind_of
from app.api.schemas.base import one_per_field, reference_to
from app.api.schemas.problems import ProblemOut
from app.api.value_remedies import remedy_of
from app.domain import errors as domain
from app.domain import log_fields
from app.domain.access_errors import (
    ForbiddenError,
    IssuerUnavailableError,
    ProjectLimitError,
    QuotaExceededError,
    UnauthenticatedError,
)
from app.domain.availability_errors import (
    DeadlineExceededError,
    OverloadedError,
    StorageUnavailableError,
)
from app.domain.errors import DomainError, Fault
from app.domain.wording import say_count

_logger = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


_NOT_FOUND = KINDS[domain.NotFoundError]
_INVALID = KINDS[domain.InvalidRequestError]
_RETRY_AFTER_S = 2
_SHOWN_CHARACTERS = 200
_NO_OBJECT = "Input should be an object"
_OBJECTS = frozenset({"model_type", "model_attributes_type", "dict_type", "mapping_type"})
"""Pydantic's error types for an input that is not an object; their messages speak of Python."""
_KEY_LOCATION = "[key]"
"""Pydantic's path element for an invalid member name (not its value)."""
_BASE = "/v1"
_API_KEY = re.compile(rb"(?<=tf_)([0-9a-f]+)_[0-9a-f]{64,}")
"""An API key in the wrong place, for example in a path: problems are often shown to others."""
_PATH_CHARACTERS = "/:@!$&'()*+,;="
"""What a path may hold besides letters, digits and -._~ (RFC 3986, section 3.3)."""
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def _fault(fault: Fault) -> dict[str, Any]:
    members = {
        "row": fault.row,
        "pointer": fault.pointer,
        "field": fault.field,
        "value": fault.value,
        "message": fault.message,
        "remedy": fault.remedy,
    }
    return {name: value for name, value in members.items() if value is not None}


def _plain(value: object) -> str:
    return repr(value)[:_SHOWN_CHARACTERS]


def problem_document(
    kind: ProblemKind,
    detail: str,
    *,
    instance: str,
    remedy: str,
    faults: Sequence[Fault] = (),
) -> dict[str, Any]:
    """Return the members of a problem details object; `instance` is a path, decoded."""
    document: dict[str, Any] = {
        "type": f"/problems/{kind.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": detail,
        "instance": quote(instance, safe=_PATH_CHARACTERS),
        "code": kind.code,
    }
    if remedy:
        document["remedy"] = remedy
    if faults:
        document["errors"] = [_fault(fault) for fault in faults]
    return document


def document_of(error: DomainError, *, instance: str) -> dict[str, Any]:
    """Return the problem details object of a domain error (also used inside batches)."""
    return problem_document(
        kind_of(error), str(error), instance=instance, remedy=error.remedy, faults=error.faults
    )


def _encode(document: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(document, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        # A refused value may be a number beyond 64 bits or hold unpaired surrogates.
        return json.dumps(document, default=_plain).encode()


def respond(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return a problem response that includes the request's id."""
    request_id = log_fields.current.get().get("request_id")
    body = document if request_id is None else {**document, "request_id": request_id}
    return Response(
        _API_KEY.sub(rb"\1_...", _encode(body)),
        status_code=int(document["status"]),
        media_type=MEDIA_TYPE,
        headers=headers,
    )


def respond_to(error: DomainError, *, instance: str) -> Response:
    """Return the response for a domain error, with `Retry-After` where waiting helps."""
    headers: dict[str, str] = {}
    kind = kind_of(error)
    if isinstance(error, QuotaExceededError | ProjectLimitError):
        if error.retry_after_s is not None:
            headers["Retry-After"] = str(error.retry_after_s)
    elif kind.status == 503 or isinstance(error, domain.InProgressError):  # noqa: PLR2004 - HTTP
        headers["Retry-After"] = str(_RETRY_AFTER_S)
    if kind.status == 401:  # noqa: PLR2004 - HTTP
        headers["WWW-Authenticate"] = "Bearer"
    return respond(document_of(error, instance=instance), headers)


def respond_internal(instance: str) -> Response:
    """Return the response for an internal error; the log has the details under the request's id."""
    return respond(
        problem_document(
            INTERNAL,
            "The service failed on this request; it was logged.",
            instance=instance,
            remedy="Retry; if it fails again, report the X-Request-ID of this answer.",
        )
    )


def _pointer(location: Sequence[int | str]) -> str:
    parts = [str(part).replace("~", "~0").replace("/", "~1") for part in location]
    return "".join(f"/{part}" for part in parts)


def _location(error: Mapping[str, Any]) -> tuple[str, tuple[int | str, ...]]:
    """Return the location of an error: the part of the request, and the path within it."""
    location, *path = error["loc"]
    if path[-1:] == [_KEY_LOCATION] and path[-2:-1] == [error.get("input")]:
        path.pop()
    return location, tuple(path)


def _kind_and_message(error: Mapping[str, Any]) -> tuple[str, str]:
    kind = str(error["type"])
    if kind in _OBJECTS:
        return kind, _NO_OBJECT
    is_value = (error.get("ctx") or {}).get("field_type") == "Value"
    if is_value and isinstance(error.get("input"), str):
        # Once the white space around a text is removed, pydantic counts its characters as items.
        return f"string_{kind}", f"The text is {kind.replace('_', ' ')}"
    return kind, str(error["msg"])


def _validation_fault(error: Mapping[str, Any]) -> Fault:
    location, inner = _location(error)
    context = error.get("ctx") or {}
    nested = inner + tuple(context.get("path", ()))
    field = next((str(part) for part in reversed(nested) if not isinstance(part, int)), None)
    value = error.get("input")
    text = value[:_SHOWN_CHARACTERS] if isinstance(value, str) else None
    shown = value if isinstance(value, int | float | bool) else text
    kind, message = _kind_and_message(error)
    remedy = (
        context.get("remedy")
        or remedy_of(kind, field or f"the {location}", context)
        or f"See the schema of {location} {field or 'as a whole'} in /docs."
    )
    return Fault(
        message=message,
        remedy=str(remedy),
        field=field,
        value=context.get("value", shown),
        pointer=_pointer(nested) if location == "body" else None,
    )


def refusal_of(entries: Sequence[Mapping[str, Any]]) -> DomainError:
    """Return the refusal for pydantic's errors; each `loc` begins with the part of the request."""
    entries = [error for entry in entries for error in one_per_field(entry)]
    faults = [_validation_fault(entry) for entry in entries]
    unknown = [
        fault
        for fault, entry in zip(faults, entries, strict=True)
        if entry["type"] in {"unknown_field", "extra_forbidden"}
    ]
    if unknown:
        return domain.UnknownFieldError(unknown)
    return domain.InvalidRequestError(
        f"The request has {say_count(len(faults), 'invalid field')}.", faults
    )


def _effective_method(method: str) -> str:
    return "GET" if method == "HEAD" else method


def _path_remedy(request: Request) -> str:
    """Return the remedy for an unknown path: `/v1` is easily left out or repeated.

    Clients add it to the address they are given.
    """
    path = request.url.path.rstrip("/")
    for candidate, hint in (
        (path, ""),
        (path.removeprefix(_BASE), f" The address given to a client ends before {_BASE}."),
        (_BASE + path, ""),
    ):
        scope = {**request.scope, "path": candidate}
        is_known = any(route.matches(scope)[0] is not Match.NONE for route in request.app.routes)
        if is_known and candidate.startswith(f"{_BASE}/"):
            return f"Did you mean {candidate}?{hint}"
    return "See /docs."


def _allowed_methods(request: Request) -> str:
    """Return all methods of the resource: the framework names only those of the first match."""
    return ", ".join(
        method
        for method in _METHODS
        if any(
            route.matches({**request.scope, "method": _effective_method(method)})[0] is Match.FULL
            for route in request.app.routes
        )
    )


def _from_framework(error: HTTPException, request: Request) -> Response:
    instance = request.scope["path"]
    headers = error.headers
    if error.status_code == 404:  # noqa: PLR2004 - HTTP
        document = problem_document(
            _NOT_FOUND, "There is nothing here.", instance=instance, remedy=_path_remedy(request)
        )
    elif error.status_code == 405:  # noqa: PLR2004 - HTTP
        document = problem_document(
            METHOD_NOT_ALLOWED,
            "This resource does not support this method.",
            instance=instance,
            remedy="Use a method that the Allow header names.",
        )
        headers = {"Allow": _allowed_methods(request)}
    elif error.status_code == 413:  # noqa: PLR2004 - HTTP
        kind = KINDS[domain.PayloadTooLargeError]
        document = problem_document(
            kind, str(error.detail), instance=instance, remedy=domain.PayloadTooLargeError.remedy
        )
    else:
        document = problem_document(
            _INVALID, str(error.detail), instance=instance, remedy=domain.InvalidRequestError.remedy
        )
    return respond(document, headers)


def install(app: FastAPI) -> None:
    """Make `app` answer every error with a problem document."""

    @app.exception_handler(DomainError)
    async def _domain(request: Request, error: DomainError) -> Response:
        return respond_to(error, instance=request.scope["path"])

    @app.exception_handler(RequestValidationError)
    async def _validation(request: Request, error: RequestValidationError) -> Response:
        return respond_to(refusal_of(error.errors()), instance=request.scope["path"])

    @app.exception_handler(HTTPException)
    async def _framework(request: Request, error: HTTPException) -> Response:
        return _from_framework(error, request)


RESPONSE_SCHEMA: dict[str, Any] = reference_to(ProblemOut)


def problem_responses(*errors: type[DomainError]) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route: the given errors and those common to all routes."""
    everywhere = (
        UnauthenticatedError,
        ForbiddenError,
        QuotaExceededError,
        StorageUnavailableError,
        IssuerUnavailableError,
        DeadlineExceededError,
        OverloadedError,
        domain.InvalidRequestError,
        domain.UnsupportedMediaTypeError,
        domain.PayloadTooLargeError,
    )
    codes: dict[int, list[str]] = {500: [INTERNAL.code]}
    for error in (*errors, *everywhere):
        kind = KINDS[error]
        if kind.code not in codes.setdefault(kind.status, []):
            codes[kind.status].append(kind.code)
    return {status: _response(tuple(names)) for status, names in sorted(codes.items())}


@cache
def _response(codes: tuple[str, ...]) -> dict[str, Any]:
    """Return the response description for problem codes; most routes share theirs."""
    return {
        "description": "Problem: " + ", ".join(codes),
        "content": {MEDIA_TYPE: {"schema": RESPONSE_SCHEMA}},
    }
