"""Answers a batch: completes the requests, asks once, trims the answers."""

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import Response
from pydantic import TypeAdapter

from app.api import problems
from app.api.bodies import check
from app.api.forecast_documents import FORECAST_MEMBERS, Document
from app.api.forecast_requests import read_alike, read_forecasts
from app.api.negotiation import JSON
from app.api.request_columns import NotColumnsError
from app.api.schemas.forecasts import MAX_BATCH, BatchIn
from app.domain.alike import AlikeRequests
from app.domain.errors import DomainError, Fault, InvalidRequestError, UnknownFieldError
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import ProjectId
from app.domain.spelling import nearest_field
from app.services.wiring import Services

if TYPE_CHECKING:
    from app.services.answers import Asked
    from app.services.forecasts import ForecastService

_BATCH_IN: TypeAdapter[BatchIn] = TypeAdapter(BatchIn)
_PATH = "/v1/forecasts:batch"
_NESTED = ("configuration", "work", "parameters", "pricing")
_FORECAST, _PROBLEM = b',"forecast":', b',"problem":'
_REF = (str, int, float, bool, NoneType)


def answer_batch(services: Services, project_id: ProjectId, body: object) -> Response:
    """Return the answers to a batch of requests, in order."""
    from app.api.forecast_columns import (  # noqa: PLC0415 - numpy and models are not for the start
        forecast_texts,
    )

    batch = _checked(body)
    fields = _known_fields(batch.fields)
    answers = _answers(services.forecasts, project_id, _read(batch))
    texts = forecast_texts(answers, services.context.now(), fields)
    kinds, failed = [_FORECAST] * len(answers), len(answers) - len(texts)
    if failed:
        told = iter(texts)
        texts = [
            _refused(each) if isinstance(each, DomainError) else next(told) for each in answers
        ]
        kinds = [_PROBLEM if isinstance(each, DomainError) else _FORECAST for each in answers]
    # One text of all parts: whole answers are megabytes, and each copy takes its time.
    parts = [b""] * (2 * len(answers))
    parts[::2], parts[1::2] = _heads(batch, kinds), texts
    end = b'%b],"failed":%d}' % (b"}" if answers else b"", failed)
    return Response(b"".join([b'{"forecasts":[', *parts, end]), media_type=JSON)


def _checked(body: object) -> BatchIn:
    """Return the batch that a document is; its entries are not copied where all are objects.

    Raises
    ------
    DomainError
        If it breaks the schema; names each field.
    """
    entries = body.get("requests") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(entries, list) or len(entries) > MAX_BATCH:
        return check(_BATCH_IN, body)
    if set(map(type, entries)) != {dict}:
        return check(_BATCH_IN, body)
    return check(_BATCH_IN, {**body, "requests": []}).model_copy(update={"requests": entries})


def _answers(
    forecasts: "ForecastService",
    project_id: ProjectId,
    asked: Sequence[ForecastRequest | DomainError],
) -> "Sequence[Asked]":
    """Return the answer to each question, or why there is none."""
    if isinstance(asked, AlikeRequests):
        return forecasts.ask_many(project_id, asked)
    good = [each for each in asked if isinstance(each, ForecastRequest)]
    found = iter(forecasts.ask_many(project_id, good))
    return [next(found) if isinstance(each, ForecastRequest) else each for each in asked]


def _heads(batch: BatchIn, kinds: Sequence[bytes]) -> list[bytes]:
    """Return what stands before each answer: the end of the one before, the caller's own name."""
    refs = _refs(batch)
    if refs.count(None) == len(refs):
        heads = [b'},{"ref":null%b' % kind for kind in kinds]
    else:
        named = zip(map(orjson.dumps, refs), kinds, strict=True)
        heads = [b'},{"ref":%b%b' % each for each in named]
    return [heads[0][2:], *heads[1:]] if heads else []


def _refs(batch: BatchIn) -> list[Any]:
    return [entry.get("ref") for entry in batch.requests]


def _refused(error: DomainError) -> bytes:
    return orjson.dumps(problems.document_of(error, instance=_PATH))


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


def _read(batch: BatchIn) -> Sequence[ForecastRequest | DomainError]:
    """Return the question of each entry, or why it is none."""
    defaults = batch.defaults
    nested = {name: base for name in _NESTED if isinstance(base := defaults.get(name), dict)}
    read: Sequence[ForecastRequest | DomainError]
    try:
        read = _read_alike(batch, nested)
    except NotColumnsError:
        read = read_forecasts([_complete(defaults, nested, entry) for entry in batch.requests])
    is_named = [isinstance(ref, _REF) for ref in _refs(batch)]
    if all(is_named):
        return read
    return [each if named else _no_ref() for each, named in zip(read, is_named, strict=True)]


def _read_alike(
    batch: BatchIn, nested: Mapping[str, Document]
) -> Sequence[ForecastRequest | DomainError]:
    if not batch.requests:
        return []
    first = _complete(batch.defaults, nested, batch.requests[0])
    return read_alike(first, batch.requests)


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
