"""The description of an upload's body in the OpenAPI document."""

from enum import StrEnum
from typing import Any, Final

from app.api.schemas.base import COMPONENTS
from app.domain.configurations import Purchase
from app.domain.exchange_rates import CURRENCY_PATTERN
from app.domain.runs import TARGETS, RunStatus
from app.services.uploads.fields import MAX_IDENTIFIER, MAX_NAMES, RESOURCES

_Schema = dict[str, Any]
_SLUG: Final = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"}
_NAME: Final = {"type": ["string", "null"], "maxLength": 100}
_POSITIVE: Final = {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 1e18}
_COUNT: Final = {"type": ["integer", "null"], "minimum": 1, "maximum": 1_000_000}
_SHARE: Final = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
_SECONDS: Final = {"type": ["number", "null"], "minimum": 0}
_INSTANT: Final = {"type": ["string", "null"], "format": "date-time"}


def _one_of(values: type[StrEnum]) -> _Schema:
    return {"anyOf": [{"$ref": f"{COMPONENTS}{values.__name__}"}, {"type": "null"}]}


def _object(properties: _Schema, **keywords: Any) -> _Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False, **keywords}


_CONFIGURATION: Final = {
    "gpu_type": _NAME,
    "instance_type": _NAME,
    "provider": _NAME,
    "region": _NAME,
    "purchase": _one_of(Purchase),
    "nodes": _COUNT,
    "workers": {**_COUNT, "description": "data-parallel training processes; default: 1"},
}
RUN_EXAMPLE: Final[_Schema] = {
    "workload": "resnet50",
    "external_id": "ci-8841/3",
    "status": "succeeded",
    "duration_seconds": 5123.7,
    "configuration": {"gpu_type": "V100-16GB", "nodes": 1, "workers": 8},
    "work": {"dataset_size": 1281167, "epochs": 90, "batch_size": 1024},
    "parameters": {"precision": "fp16", "inner_modules": 4},
    "cost": {"amount": "34.83", "currency": "USD"},
    "started_at": "2026-11-01T10:00:00Z",
    "labels": {"git_sha": "1f2e3d"},
}
RUN_SCHEMA: Final[_Schema] = _object(
    {
        "workload": _SLUG,
        "external_id": {"type": ["string", "null"], "maxLength": 200},
        "status": _one_of(RunStatus),
        "duration_seconds": {
            **_POSITIVE,
            "maximum": 3e8,
            "description": "required unless started_at and ended_at are given",
        },
        "progress": _SHARE,
        "started_at": _INSTANT,
        "ended_at": _INSTANT,
        "configuration": _object(_CONFIGURATION),
        "work": _object(
            dict.fromkeys(("dataset_size", "batch_size", "epochs"), _POSITIVE),
        ),
        "parameters": {
            "type": "object",
            "maxProperties": MAX_NAMES,
            "additionalProperties": {"type": ["number", "string", "boolean", "null"]},
        },
        "phases": {
            "type": "object",
            "propertyNames": {"pattern": r"^[A-Za-z0-9][A-Za-z0-9_.\-]{0,90}_seconds$"},
            "additionalProperties": _SECONDS,
        },
        "resources": _object(
            {name: _SHARE if name.endswith("utilization") else _SECONDS for name in RESOURCES}
            | dict.fromkeys(TARGETS, _POSITIVE)
        ),
        **dict.fromkeys(TARGETS, _POSITIVE),
        "cost": _object(
            {
                "amount": {"type": ["string", "number"], "pattern": r"^\d{1,12}(\.\d{1,6})?$"},
                "currency": {"type": "string", "pattern": CURRENCY_PATTERN},
            },
            required=["amount", "currency"],
        ),
        "labels": {
            "type": "object",
            "maxProperties": MAX_NAMES,
            "additionalProperties": {"type": ["string", "null"], "maxLength": 500},
        },
        "forecast_id": {**_NAME, "maxLength": MAX_IDENTIFIER},
        "excluded_reason": {
            "type": ["string", "null"],
            "maxLength": 500,
            "description": "keeps the run out of fits; a duplicate stays as it is",
        },
        "framework": _NAME,
    },
    required=["workload"],
    description="A measured run; its columns of the CSV form are taken as flat fields, too.",
    examples=[RUN_EXAMPLE],
)
REPORTED_RUN_SCHEMA: Final[_Schema] = {
    **{name: value for name, value in RUN_SCHEMA.items() if name not in {"required", "examples"}},
    "description": "A measured run as in `POST /v1/runs`; the report may name its workload.",
}
SCHEMAS: Final = {"RunIn": RUN_SCHEMA, "ReportedRunIn": REPORTED_RUN_SCHEMA}
"""What no model describes, by its name in the OpenAPI document."""
_RUN: Final = {"$ref": f"{COMPONENTS}RunIn"}
_CSV_EXAMPLE: Final = """\
workload,external_id,duration_seconds,gpu_type,nodes,workers,dataset_size,batch_size,param.precision
resnet50,ci-8841/4,5171.2,V100-16GB,1,8,1281167,1024,fp16
"""
# NDJSON is left out: OpenAPI cannot describe a stream of JSON rows, and tools fail on its type.
UPLOAD_BODY: Final[_Schema] = {
    "required": True,
    "description": "JSON or CSV; with `Content-Type: application/x-ndjson` one JSON run per line.",
    "content": {
        "application/json": {
            "schema": {"anyOf": [_RUN, {"type": "array", "items": _RUN}]},
            "example": [RUN_EXAMPLE],
        },
        "text/csv": {"schema": {"type": "string"}, "example": _CSV_EXAMPLE},
    },
}
