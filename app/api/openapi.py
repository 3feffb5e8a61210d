"""Describes the API: the OpenAPI document of its routes, with what applies to all of them.

The service itself does not import this module. It publishes `openapi.json`, which `make openapi`
writes (ADR 101).
"""

from typing import Any, Final, Literal

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from app.api.problem_kinds import KINDS
from app.api.problems import MEDIA_TYPE, RESPONSE_SCHEMA
from app.api.schemas.answer_examples import EXAMPLES
from app.api.schemas.base import COMPONENTS
from app.api.schemas.ci import CiReportIn
from app.api.schemas.exchange_rates import ExchangeRateIn
from app.api.schemas.forecast_answers import BatchEntryOut, ForecastOut
from app.api.schemas.forecasts import BatchIn, ForecastIn
from app.api.schemas.grid_factors import GridFactorIn
from app.api.schemas.headers import HEADERS, common_headers
from app.api.schemas.prices import PriceIn
from app.api.schemas.problems import ProblemOut
from app.api.schemas.recommendations import RecommendationIn
from app.api.schemas.upload_document import SCHEMAS
from app.domain.errors import InProgressError

_KEY_PARAMETER: Final[dict[str, Any]] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "The same key and body replay the first answer for 24 hours, with"
    " `Idempotent-Replayed: true`; another body is refused.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_READ_BY_HAND: Final[tuple[type[BaseModel], ...]] = (
    BatchIn,
    CiReportIn,
    ExchangeRateIn,
    ForecastIn,
    GridFactorIn,
    PriceIn,
    ProblemOut,
    RecommendationIn,
)
"""Models that FastAPI does not see: `app.api.schemas.base.reference_to` refers to them."""
_DESCRIPTION: Final = """\
Measured runs go in, a regressor is fitted per workload in the background, out come forecasts
of training time and cost with calibrated intervals.

Errors are `application/problem+json` (RFC 9457); each `type` resolves to a page under
`/problems`. Bodies may be compressed (`Content-Encoding: gzip` or `zstd`). Requests may carry
`X-Request-ID`; every answer does.
"""
_TAGS: Final = {
    "workloads": "Training jobs whose duration and cost are asked.",
    "runs": "What was measured of them.",
    "fits": "Computations of regressors from runs, in the background.",
    "regressors": "The versions of each workload's regressor, and which of them answers.",
    "forecasts": "Durations and costs of configurations that nobody has run yet.",
    "recommendations": "The cheapest, fastest or cleanest configuration that meets conditions.",
    "profiling": "Which configurations to measure next.",
    "schedules": "Queues of jobs: their order, their GPUs, the GPUs they will need.",
    "ci": "Runs of a build, judged by what was forecast for them.",
    "prices": "Prices of hardware, exchange rates and grid factors of the project.",
    "gpus": "Data sheets of GPU types, and their names.",
    "health": "Whether the service runs, and its metrics.",
}
_BEARER: Final = (
    "An API key or, where the service trusts an OpenID Connect issuer, one of its tokens (JWT): a"
    " person's or a CI job's."
)


def _operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]


def _described_by_hand() -> dict[str, Any]:
    models: list[tuple[type[BaseModel], Literal["validation"]]] = [
        (model, "validation") for model in _READ_BY_HAND
    ]
    _, document = models_json_schema(models, ref_template=COMPONENTS + "{model}")
    described: dict[str, Any] = document["$defs"]
    # Pydantic accepts no reference to a schema that is not its own.
    reported = described[CiReportIn.__name__]["properties"]["runs"]
    reported["items"] = {"$ref": f"{COMPONENTS}ReportedRunIn"}
    return SCHEMAS | described


def _some_of(schema: dict[str, Any], description: str, **more: Any) -> dict[str, Any]:
    """Return the schema of an object that may leave out any member of another."""
    without_defaults = {
        name: {keyword: value for keyword, value in member.items() if keyword != "default"}
        for name, member in schema["properties"].items()
    }
    kept = {name: schema[name] for name in schema if name in {"type", "additionalProperties"}}
    return {**kept, "description": description, "properties": {**more, **without_defaults}}


def _describe_batches(schemas: dict[str, Any]) -> None:
    """Describe the entries of batches, of which models know only that they are objects."""
    question, answer = schemas[ForecastIn.__name__], schemas[ForecastOut.__name__]
    ref = schemas[BatchEntryOut.__name__]["properties"]["ref"]
    schemas["ForecastDefaultsIn"] = _some_of(
        question, "Members of a forecast request that all requests of a batch share."
    )
    schemas["BatchRequestIn"] = _some_of(
        question, "A forecast request of a batch; `defaults` fill in what it leaves out.", ref=ref
    )
    schemas["BatchForecastOut"] = _some_of(
        answer, "A forecast; with `fields` it has these members alone."
    )
    members = schemas[BatchIn.__name__]["properties"]
    members["defaults"] = {"$ref": f"{COMPONENTS}ForecastDefaultsIn"}
    members["requests"]["items"] = {"$ref": f"{COMPONENTS}BatchRequestIn"}
    members["fields"]["anyOf"][0]["items"] = {"type": "string", "enum": [*answer["properties"]]}
    entry = schemas[BatchEntryOut.__name__]["properties"]
    entry["forecast"]["anyOf"][0] = {"$ref": f"{COMPONENTS}BatchForecastOut"}


def _describe_streams(operation: dict[str, Any]) -> None:
    """Describe streams in the words of OpenAPI 3.1; the framework uses a keyword of 3.2."""
    for response in operation["responses"].values():
        for media in response.get("content", {}).values():
            if media.pop("itemSchema", None):
                media["schema"] = {"type": "string"}


def _accept_idempotency_key(operation: dict[str, Any]) -> None:
    parameters = operation.setdefault("parameters", [])
    if not any(parameter.get("name") == _KEY_PARAMETER["name"] for parameter in parameters):
        parameters.append(_KEY_PARAMETER)
    kind = KINDS[InProgressError]
    response = operation["responses"].setdefault(
        str(kind.status), {"content": {MEDIA_TYPE: {"schema": RESPONSE_SCHEMA}}}
    )
    description = response.get("description", "Problem")
    response["description"] = f"{description}{',' if ':' in description else ':'} {kind.code}"


def describe(app: FastAPI) -> dict[str, Any]:
    """Return the document of an application's routes, as a service that requires keys has it."""
    document = app.openapi()
    document["info"]["description"] = _DESCRIPTION
    document["servers"] = [{"url": "/", "description": "this service"}]
    document["security"] = [{"bearer": []}]
    document["tags"] = [{"name": name, "description": text} for name, text in _TAGS.items()]
    components = document.setdefault("components", {})
    schemas = _described_by_hand() | components.get("schemas", {})
    _describe_batches(schemas)
    for name, example in EXAMPLES.items():
        schemas[name]["examples"] = [example]
    components["schemas"] = schemas
    components["headers"] = HEADERS
    components["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": _BEARER}
    }
    for path, method, operation in _operations(document):
        _describe_streams(operation)
        if not path.startswith("/v1/"):
            operation["security"] = []
        elif method == "post":
            _accept_idempotency_key(operation)
        for status, response in operation["responses"].items():
            has_choice = len(response.get("content", ())) > 1
            headers = common_headers(path, method, status, has_choice=has_choice)
            response.setdefault("headers", {}).update(headers)
    return document
