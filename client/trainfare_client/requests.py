"""A request as data: what is asked, and the type of document that answers it."""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar
from urllib.parse import quote

from trainfare_client.errors import BadNameError, BadNumberError

if TYPE_CHECKING:
    from collections.abc import Iterable

T_co = TypeVar("T_co", covariant=True)

_JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Request(Generic[T_co]):
    """One request to the service, answered by a document of type `T_co`.

    Attributes
    ----------
    wait_s
        How long the service was asked to hold back its answer, in seconds.
    expected_field
        A field that distinguishes the service's answer from a stranger's; empty if a stranger's
        does no harm.
    """

    method: str
    path: str
    params: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes = b""
    wait_s: float = 0.0
    expected_field: str = ""


def get(
    path: str,
    params: Mapping[str, Any] | None = None,
    *,
    wait_s: float = 0,
    expected_field: str = "",
) -> Request[Any]:
    """Return a request that changes nothing."""
    headers = _prefer_header(wait_s)
    return Request(
        "GET", path, _query(params), headers, wait_s=wait_s, expected_field=expected_field
    )


def post(
    path: str,
    body: object,
    *,
    params: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
    wait_s: float = 0,
    expected_field: str = "",
) -> Request[Any]:
    """Return a request with a JSON body and an idempotency key, by default a new one."""
    headers = {**_JSON, **_prefer_header(wait_s), **idempotency_header(idempotency_key)}
    return Request("POST", path, _query(params), headers, encoded(body), wait_s, expected_field)


def put(path: str, body: object) -> Request[Any]:
    """Return a request that replaces the resource at a path."""
    return Request("PUT", path, headers=_JSON, content=encoded(body))


def patch(path: str, body: object) -> Request[Any]:
    """Return a request that changes fields of the resource at a path."""
    return Request("PATCH", path, headers=_JSON, content=encoded(body))


def delete(path: str) -> Request[None]:
    """Return a request that removes the resource at a path."""
    return Request("DELETE", path)


def idempotency_header(idempotency_key: str | None) -> dict[str, str]:
    """Return the header that makes a repetition harmless."""
    return {"Idempotency-Key": idempotency_key or str(uuid.uuid4())}


def path_of(*parts: str | int) -> str:
    """Return a path under `/v1` with each part quoted.

    Raises
    ------
    BadNameError
        If a part is empty or would lead to another path.

    Examples
    --------
    >>> path_of("workloads", "resnet 50", "runs")
    '/v1/workloads/resnet%2050/runs'
    """
    return "/v1/" + "/".join(_quoted(str(part)) for part in parts)


def _quoted(part: str) -> str:
    if part in {"", ".", ".."}:
        raise BadNameError(f"{part!r} names nothing.", "Is a variable empty?")
    if "/" in part:
        # Even quoted it would split the path: servers read it as a slash.
        raise BadNameError(f"{part!r} is not a name: it has a slash.", "Give the name alone.")
    return quote(part, safe="")


def without_none(**fields: Any) -> dict[str, Any]:
    """Return the fields that are not None.

    Examples
    --------
    >>> without_none(seed=1, publish=None)
    {'seed': 1}
    """
    return {name: value for name, value in fields.items() if value is not None}


def encoded(body: object, error_prefix: str = "") -> bytes:
    """Return a document as JSON; money and instants as text, numpy's numbers as numbers.

    Parameters
    ----------
    body
        The document.
    error_prefix
        What an error says before the name of a member that is not a finite number.

    Raises
    ------
    BadNumberError
        If a number is infinite or NaN: the service accepts neither.
    """
    try:
        return json.dumps(
            body, default=_json_value, allow_nan=False, separators=(",", ":")
        ).encode()
    except ValueError as error:
        place = next(_non_finite_members(body), None)
        if place is None:
            raise
        raise BadNumberError(
            f"{error_prefix}{place}, not a finite number.", "Leave out what is unknown."
        ) from error


def _non_finite_members(body: object, name: str = "") -> Iterator[str]:
    """Yield a message for each member of a document that is infinite or NaN."""
    if isinstance(body, Mapping):
        for key, value in body.items():
            yield from _non_finite_members(value, f"{name}.{key}" if name else str(key))
    elif isinstance(body, list | tuple):
        for index, value in enumerate(body):
            yield from _non_finite_members(value, f"{name}[{index}]")
    else:
        scalar = _json_value(body)
        if isinstance(scalar, float) and not math.isfinite(scalar):
            yield f"{name} is {scalar}"


def flat_fields(
    *,
    configuration: Mapping[str, Any] | None = None,
    work: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Return the flat fields of a what-if; parameters become `param.NAME`.

    A text is one value, also if it has commas.
    """
    parameter_fields = {f"param.{name}": value for name, value in (parameters or {}).items()}
    fields = {**(configuration or {}), **(work or {}), **parameter_fields, **without_none(**others)}
    return {name: [value] if isinstance(value, str) else value for name, value in fields.items()}


def _query(params: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    return [
        (name, _query_value(value)) for name, value in (params or {}).items() if value is not None
    ]


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return _comma_list(value)
    return str(_text(value)) if not isinstance(value, (int, float, str)) else str(value)


def _comma_list(values: Iterable[Any]) -> str:
    return ",".join(_list_item(_query_value(value)) for value in values)


def _list_item(word: str) -> str:
    """Return a value as written in a list: with commas or quotes in quotes, as in a CSV cell."""
    return '"' + word.replace('"', '""') + '"' if {",", '"'} & set(word) else word


def _json_value(value: Any) -> Any:
    """Return a number for a numpy or torch scalar, and a text for all else."""
    if isinstance(value, float):
        return value
    is_scalar = hasattr(value, "item") and getattr(value, "ndim", None) == 0
    return value.item() if is_scalar else _text(value)


def _text(value: Any) -> str:
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)


def _prefer_header(wait_s: float) -> dict[str, str]:
    return {"Prefer": f"wait={int(wait_s)}"} if wait_s else {}
