"""Answers a batch: completes the requests, evaluates all at once, trims the answers."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from fastapi import Response
from pydantic import TypeAdapter

from app.api import problems
from app.api.batches.responses import PartsResponse, list_response
from app.api.documents.forecasts import FORECAST_MEMBERS, Document
from app.api.negotiation import JSON
from app.api.requests.bodies import check, parse_json
from app.api.requests.columns import NotColumnsError
from app.api.requests.entry_texts import AlikeEntries, alike_entries
from app.api.requests.forecasts import read_alike, read_columns, read_forecasts
from app.api.schemas.forecasts import MAX_BATCH, BatchIn
from app.domain.alike import AlikeRequests
from app.domain.errors import DomainError, Fault, InvalidRequestError, UnknownFieldError
from app.domain.forecasts import ForecastRequest
from app.domain.identifiers import ProjectId
from app.domain.spelling import nearest_field
from app.services.wiring import Services

if TYPE_CHECKING:
    from app.services.answering.answers import LazyAnswer
    from app.services.answering.rows import AllAnswered

_BATCH_IN: TypeAdapter[BatchIn] = TypeAdapter(BatchIn)
_MIN_BYTES_OF_COLUMNS: Final = 1 << 16
"""A few hundred entries: shorter documents are read faster as a whole."""

_PATH = "/v1/forecasts:batch"
_BEGIN, _NEXT = b'{"forecasts":[', b"},"
_REFS = frozenset({str, int, float, bool, NoneType})


class _Questions(NamedTuple):
    """The question of each entry or its refusal, each `ref`, and the forecast members to return."""

    requests: Sequence[ForecastRequest | DomainError]
    refs: Sequence[Any]
    fields: Sequence[str]


def answer_batch(services: Services, project_id: ProjectId, body: bytes) -> Response:
    """Return the answers to a batch of requests, in order.

    Raises
    ------
    DomainError
        If the body is not a valid batch; names each field.
    """
    from app.services.answering.rows import (  # noqa: PLC0415 - numpy and models are not for the start
        AllAnswered,
    )

    requests, refs, fields = _questions(body)
    valid_rows, valid = _valid(requests)
    now = services.context.now()
    entries = _Entries(refs, now, fields)
    for part in services.forecasts.ask_parts(project_id, valid):
        if isinstance(part.answers, AllAnswered) and len(part.answers) == len(requests):
            return _complete_response(refs, part.answers, now, fields)
        entries.add([valid_rows[place] for place in part.rows], part.answers)
    if len(valid) < len(requests):
        for row, request in enumerate(requests):
            if isinstance(request, DomainError):
                entries.refuse(row, request)
    return entries.response()


def _complete_response(
    refs: Sequence[Any], answers: "AllAnswered", now: datetime, fields: Sequence[str]
) -> PartsResponse:
    """Return the response of a batch without refusals."""
    from app.api.batches.forecasts import (  # noqa: PLC0415 - as above
        forecast_blocks,
    )

    blocks = forecast_blocks(answers, _heads(refs), now, fields)
    return list_response(_BEGIN, blocks, _NEXT, _end(0))


class _Entries:
    """The entries of a response that may contain refusals, in any order.

    Parameters
    ----------
    refs
        The `ref` of each entry.
    now
        The current time.
    fields
        The forecast members to return.
    """

    def __init__(self, refs: Sequence[Any], now: datetime, fields: Sequence[str]) -> None:
        self._refs, self._now, self._fields = refs, now, fields
        self._texts: list[bytes] = [b""] * len(refs)
        self._failed = 0

    def refuse(self, row: int, error: DomainError) -> None:
        """Write the refusal of an entry."""
        problem = orjson.dumps(problems.document_of(error, instance=_PATH))
        self._texts[row] = b'{"ref":%b,"problem":%b' % (_shown_ref(self._refs[row]), problem)
        self._failed += 1

    def add(self, rows: Sequence[int], answers: "Sequence[LazyAnswer]") -> None:
        """Write the answers to some entries; no answer is needed afterwards."""
        from app.api.batches.forecasts import forecast_texts  # noqa: PLC0415 - as above

        texts = iter(forecast_texts(answers, self._now, self._fields))
        for row, answer in zip(rows, answers, strict=True):
            if isinstance(answer, DomainError):
                self.refuse(row, answer)
            else:
                ref = orjson.dumps(self._refs[row])
                self._texts[row] = b'{"ref":%b,"forecast":%b' % (ref, next(texts))

    def response(self) -> Response:
        """Return the response with all entries, none of which may be missing."""
        end = _end(self._failed) if self._texts else _end(0)[1:]
        return Response(b"".join((_BEGIN, _NEXT.join(self._texts), end)), media_type=JSON)


def _heads(refs: Sequence[Any]) -> bytes | list[bytes]:
    """Return the text before each forecast: the end of the previous entry, and the `ref`."""
    if refs.count(None) == len(refs):
        return b'},{"ref":null,"forecast":'
    return [b'},{"ref":%b,"forecast":' % ref for ref in map(orjson.dumps, refs)]


def _end(failed: int) -> bytes:
    return b'}],"failed":%d}' % failed


def _checked(body: object) -> BatchIn:
    """Validate a batch document; its entries are not copied if all are objects.

    Raises
    ------
    DomainError
        If it violates the schema; names each field.
    """
    entries = body.get("requests") if isinstance(body, dict) else None
    if not isinstance(body, dict) or not isinstance(entries, list) or len(entries) > MAX_BATCH:
        return check(_BATCH_IN, body)
    if set(map(type, entries)) != {dict}:
        return check(_BATCH_IN, body)
    return check(_BATCH_IN, {**body, "requests": []}).model_copy(update={"requests": entries})


def _valid(
    requests: Sequence[ForecastRequest | DomainError],
) -> tuple[Sequence[int], Sequence[ForecastRequest]]:
    """Return the questions that can be asked, and their places."""
    if isinstance(requests, AlikeRequests):
        return range(len(requests)), requests
    valid = {row: each for row, each in enumerate(requests) if isinstance(each, ForecastRequest)}
    return list(valid), list(valid.values())


def _checked_fields(fields: list[str] | None) -> Sequence[str]:
    if fields is None:
        return FORECAST_MEMBERS
    unknown = [index for index, name in enumerate(fields) if name not in FORECAST_MEMBERS]
    if not unknown:
        return fields
    faults = []
    for index in unknown:
        name = fields[index].encode("utf-8", "backslashreplace").decode()
        nearest = nearest_field(name, FORECAST_MEMBERS)
        remedy = f"Use {nearest!r}." if nearest else f"Known: {', '.join(FORECAST_MEMBERS)}."
        message, pointer = "A forecast has no such member.", f"/fields/{index}"
        faults.append(Fault(message, remedy, field=name, pointer=pointer))
    raise UnknownFieldError(faults)


def _questions(body: bytes) -> _Questions:
    """Return the questions of a batch; see `answer_batch`."""
    columns = alike_entries(body) if len(body) >= _MIN_BYTES_OF_COLUMNS else None
    if columns is not None:
        batch = check(_BATCH_IN, columns.document)
        fields = _checked_fields(batch.fields)
        try:
            return _Questions(*_read_alike_entries(batch, columns), fields)
        except NotColumnsError:  # read one by one below, to find the refused entry
            pass
    batch = _checked(parse_json(body))
    return _Questions(*_read(batch), _checked_fields(batch.fields))


def _read_alike_entries(
    batch: BatchIn, entries: AlikeEntries
) -> tuple[Sequence[ForecastRequest], Sequence[Any]]:
    """Return the question and the `ref` of each entry.

    Raises
    ------
    NotColumnsError
        If an entry is refused.
    """
    refs = entries.members[""].get("ref") or [None] * entries.n_rows
    if not _REFS.issuperset(map(type, refs)):
        raise NotColumnsError
    return read_columns(_first(batch), entries.members, entries.n_rows), refs


def _read(batch: BatchIn) -> tuple[Sequence[ForecastRequest | DomainError], Sequence[Any]]:
    """Return the question of each entry or its refusal, and each `ref`."""
    read: Sequence[ForecastRequest | DomainError]
    try:
        read = read_alike(_first(batch), batch.requests) if batch.requests else []
        if read and "ref" not in batch.requests[0]:  # all entries have the same members
            return read, [None] * len(read)
    except NotColumnsError:
        read = read_forecasts(_all_with_defaults(batch))
    refs = [entry.get("ref") for entry in batch.requests]
    if _REFS.issuperset(map(type, refs)):
        return read, refs
    pairs = zip(read, refs, strict=True)
    return [request if type(ref) in _REFS else _invalid_ref() for request, ref in pairs], refs


def _first(batch: BatchIn) -> Document:
    """Return the first request, completed with the defaults."""
    return _with_defaults(batch.defaults, batch.requests[0])


def _all_with_defaults(batch: BatchIn) -> list[Document]:
    """Return the requests, completed with the defaults."""
    return [_with_defaults(batch.defaults, entry) for entry in batch.requests]


def _shown_ref(ref: Any) -> bytes:
    """Return a `ref` that may be refused as JSON; null if it is too deep to be written."""
    try:
        return orjson.dumps(ref)
    except TypeError:
        return b"null"


def _invalid_ref() -> InvalidRequestError:
    fault = Fault("A ref is a text or a number.", "Send a short text.", field="ref")
    return InvalidRequestError("The ref is invalid.", [fault])


def _with_defaults(defaults: Mapping[str, Any], entry: Document) -> Document:
    """Return the request completed with the defaults; nested objects are merged member by member.

    Examples
    --------
    >>> defaults = {"pricing": {"extras": {"other_nodes": 1, "egress_gb": 2}}}
    >>> _with_defaults(defaults, {"ref": "a", "pricing": {"extras": {"other_nodes": 3}}})
    {'pricing': {'extras': {'other_nodes': 3, 'egress_gb': 2}}}
    """
    merged = {**defaults, **entry}
    merged.pop("ref", None)
    levels: list[tuple[Document, Mapping[str, Any], Document]] = [(merged, defaults, entry)]
    for level, base, own in levels:  # no recursion: the document may be deeply nested
        for name, default in base.items():
            given = own.get(name)
            if isinstance(default, dict) and isinstance(given, dict):
                level[name] = combined = {**default, **given}
                levels.append((combined, default, given))
    return merged
