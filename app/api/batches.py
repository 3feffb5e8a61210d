"""Answers a batch: completes the requests, asks once, trims the answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response
from pydantic import TypeAdapter

from app.api import problems
from app.api.bodies import check, json_response
from app.api.forecast_documents import FORECAST_MEMBERS, Document, forecast_document
from app.api.schemas.forecasts import FORECAST_IN, BatchIn
from app.domain.errors import DomainError, Fault, InvalidRequestError, UnknownFieldError
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import ProjectId
from app.domain.spelling import nearest_field
from app.services.wiring import Services

_BATCH_IN: TypeAdapter[BatchIn] = TypeAdapter(BatchIn)
_PATH = "/v1/forecasts:batch"
_NESTED = ("configuration", "work", "parameters", "pricing")


def answer_batch(services: Services, project_id: ProjectId, body: object) -> Response:
    """Return the answers to a batch of requests, in order."""
    batch = check(_BATCH_IN, body)
    fields = _known_fields(batch.fields)
    asked = [_read(batch.defaults, entry) for entry in batch.requests]
    good = [each for each in asked if isinstance(each, ForecastRequest)]
    answers = iter(services.forecasts.ask_many(project_id, good))
    now = services.context.now()
    entries: list[Document] = []
    failed = 0
    for entry, each in zip(batch.requests, asked, strict=True):
        answer = next(answers) if isinstance(each, ForecastRequest) else each
        document: Document = {"ref": entry.get("ref")}
        if isinstance(answer, DomainError):
            failed += 1
            document["problem"] = problems.document_of(answer, instance=_PATH)
        else:
            document["forecast"] = forecast_document(answer, now, fields)
        entries.append(document)
    return json_response({"forecasts": entries, "failed": failed})


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


def _read(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> ForecastRequest | DomainError:
    ref = entry.get("ref")
    if ref is not None and not isinstance(ref, str | int | float | bool):
        fault = Fault("A ref is a text or a number.", "Send a short text.", field="ref")
        return InvalidRequestError("The ref is invalid.", [fault])
    try:
        return check(FORECAST_IN, _complete(defaults, entry)).to_domain()
    except DomainError as error:
        return error


def _complete(defaults: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with the defaults; members of nested objects are completed one by one."""
    merged = {**defaults, **entry}
    merged.pop("ref", None)
    for name in _NESTED:
        base, own = defaults.get(name), entry.get(name)
        if isinstance(base, Mapping) and isinstance(own, Mapping):
            merged[name] = {**base, **own}
    return merged
