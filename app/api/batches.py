"""Answers a batch: completes the requests, asks once, trims the answers."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import orjson
from fastapi import Response
from pydantic import TypeAdapter

from app.api import problems
from app.api.bodies import check
from app.api.forecast_documents import FORECAST_MEMBERS, Document, forecast_document
from app.api.forecast_requests import read_forecasts
from app.api.negotiation import JSON
from app.api.schemas.forecasts import BatchIn
from app.domain.errors import DomainError, Fault, InvalidRequestError, UnknownFieldError
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import ProjectId
from app.domain.spelling import nearest_field
from app.services.wiring import Services

_BATCH_IN: TypeAdapter[BatchIn] = TypeAdapter(BatchIn)
_PATH = "/v1/forecasts:batch"
_NESTED = ("configuration", "work", "parameters", "pricing")
_REF = (str, int, float, bool, NoneType)


def answer_batch(services: Services, project_id: ProjectId, body: object) -> Response:
    """Return the answers to a batch of requests, in order."""
    batch = check(_BATCH_IN, body)
    fields = _known_fields(batch.fields)
    asked = _read(batch)
    good = [each for each in asked if isinstance(each, ForecastRequest)]
    answers = iter(services.forecasts.ask_many(project_id, good))
    now = services.context.now()
    entries: list[bytes] = []
    failed = 0
    for entry, each in zip(batch.requests, asked, strict=True):
        answer = next(answers) if isinstance(each, ForecastRequest) else each
        document: Document = {"ref": entry.get("ref")}
        if isinstance(answer, DomainError):
            failed += 1
            document["problem"] = problems.document_of(answer, instance=_PATH)
        else:
            document["forecast"] = forecast_document(answer, now, fields)
        # One at a time: ten thousand documents at once are millions of objects.
        entries.append(orjson.dumps(document))
    body = b'{"forecasts":[%b],"failed":%d}' % (b",".join(entries), failed)
    return Response(body, media_type=JSON)


def _known_fields(fields: list[str] | None) -> Sequence[str]:
    if fields is None:
        return FORECAST_MEMBERS
    unknown = [name for name in fields if name not in FORECAST_MEMBERS]
    if not unknown:
        return fields
    faults = []
    for name in unknown:
        nearest = nearest_field(name, FORECAST_MEMBERS)
        remedy = f"Use {nearest!r}." if nearest else f"Known: {', '.join(FORECAST_MEMBERS)}."
        faults.append(Fault("A forecast has no such member.", remedy, field="fields", value=name))
    raise UnknownFieldError(faults)


def _read(batch: BatchIn) -> list[ForecastRequest | DomainError]:
    """Return the question of each entry, or why it is none."""
    defaults = batch.defaults
    nested = {name: base for name in _NESTED if isinstance(base := defaults.get(name), dict)}
    read = read_forecasts([_complete(defaults, nested, entry) for entry in batch.requests])
    return [
        each if isinstance(entry.get("ref"), _REF) else _no_ref()
        for each, entry in zip(read, batch.requests, strict=True)
    ]


def _no_ref() -> InvalidRequestError:
    fault = Fault("A ref is a text or a number.", "Send a short text.", field="ref")
    return InvalidRequestError("The ref is invalid.", [fault])


def _complete(
    defaults: Mapping[str, Any], nested: Mapping[str, Document], entry: Document
) -> Document:
    """Return the request with the defaults; members of nested objects are completed one by one."""
    merged = {**defaults, **entry}
    merged.pop("ref", None)
    for name, base in nested.items():
        own = entry.get(name)
        if isinstance(own, dict):
            merged[name] = {**base, **own}
    return merged
