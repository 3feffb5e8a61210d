"""Problems (RFC 9457) as the OpenAPI document shows them; `app.api.problems` writes them."""

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from app.api.schemas.base import ResponseModel

_EXAMPLE: Final[dict[str, Any]] = {
    "type": "/problems/unknown_field",
    "title": "Unknown field",
    "status": 422,
    "detail": "1 unknown field: 'datasetsize'.",
    "instance": "/v1/workloads/resnet50/forecast",
    "code": "unknown_field",
    "remedy": "Use the suggested field or leave it out.",
    "errors": [
        {
            "field": "datasetsize",
            "message": "There is no field 'datasetsize'.",
            "remedy": "Did you mean 'dataset_size'? A parameter of the workload is param.NAME.",
        }
    ],
}


class FaultOut(ResponseModel):
    """One fault of a request: where it is, and what to do; members that do not apply are absent."""

    row: Annotated[
        int | None, Field(description="of an upload, from 1; the header of a CSV is not counted")
    ] = None
    pointer: Annotated[
        str | None, Field(description="JSON pointer (RFC 6901) into any other body")
    ] = None
    field: Annotated[str | None, Field(description="field, column, parameter or header")] = None
    value: Annotated[Any, Field(description="what was sent, perhaps shortened")] = None
    message: str
    remedy: str


class ProblemOut(ResponseModel):
    """A problem (RFC 9457): programs decide by `code`, people read `detail` and `remedy`."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    type: Annotated[str, Field(description="the page of this service that explains the code")]
    title: str
    status: int
    detail: str
    instance: Annotated[str, Field(description="the path of the request")]
    code: Annotated[
        str, Field(description="stable; the description of each response names those it may have")
    ]
    remedy: str | None = None
    request_id: Annotated[str | None, Field(description="that of `X-Request-ID`")] = None
    errors: list[FaultOut] | None = None
