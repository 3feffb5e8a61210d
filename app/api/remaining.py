"""The route of the remaining time of running jobs."""

from fastapi import Request, Response

from app.api.accepted import accepted_type
from app.api.dependencies import Reader, ServicesDep
from app.api.documents.forecasts import rounded_band, warning_documents
from app.api.documents.schedules import Document, say_band
from app.api.forecasts import FORECAST_PROBLEMS
from app.api.negotiation import JSON, PLAIN_TEXT, TEXT
from app.api.requests.bodies import json_response
from app.api.requests.routers import ApiRouter
from app.api.schemas.quantities import significant
from app.api.schemas.remaining import RemainingIn, RemainingOut
from app.domain.instants import second_text
from app.domain.remaining import Remaining
from app.domain.wording import say_factor, say_probability, say_seconds, say_share

router = ApiRouter("/v1/forecasts", "forecasts")
_NOTABLE = 0.05


@router.post(
    ":remaining",
    summary="Forecast what is left of a job under way",
    description="The forecast conditioned on progress and elapsed time, past segments on other"
    " configurations included. `Accept: text/plain` answers in sentences.",
    responses={
        **FORECAST_PROBLEMS,
        200: {
            "model": RemainingOut,
            "content": {TEXT: PLAIN_TEXT},
            "description": "How long the job still takes",
        },
    },
)
def remaining(
    request: Request, body: RemainingIn, services: ServicesDep, caller: Reader
) -> Response:
    result = services.remaining.remaining(caller.project_id, body.to_domain())
    document = remaining_document(result)
    if accepted_type(request, (JSON, TEXT)) == TEXT:
        text = remaining_text(document, has_segments=bool(result.request.segments))
        return Response(text, media_type=TEXT)
    return json_response(document)


def remaining_document(result: Remaining) -> Document:
    """Return the document of a job's remaining time."""
    probability = result.deadline_probability
    return {
        "workload": result.request.workload,
        "regressor_version": result.regressor_version,
        "remaining_seconds": rounded_band(result.left_s),
        "expected_remaining_seconds": significant(result.expected_s, 7),
        "total_seconds": rounded_band(result.total_s),
        "forecast_seconds": rounded_band(result.forecast_s),
        "ratio": significant(result.ratio, 4),
        "observed_weight": significant(result.weight, 4),
        "ends_at": second_text(result.ends_at),
        "latest_end": second_text(result.latest_end),
        "deadline_probability": significant(probability, 6),
        "warnings": warning_documents(result.warnings),
    }


def remaining_text(document: Document, *, has_segments: bool) -> str:
    """Return a job's remaining time as a few lines of prose.

    Of a job with `has_segments` on other configurations, not the whole duration is compared with
    the forecast, which is for the present one.
    """
    from app.api.documents import plain_text  # noqa: PLC0415 - programs ask for JSON

    left, total = document["remaining_seconds"], document["total_seconds"]
    forecast, ratio = document["forecast_seconds"], document["ratio"]
    lines = [
        (
            f"{document['workload']}: about {say_seconds(left['median'])} left, with"
            f" {say_share(left['confidence'])} confidence {say_band(left)}."
        ),
        f"It takes {say_seconds(total['median'])} in total ({say_band(total)})",
    ]
    pace = "as forecast"
    if abs(ratio - 1.0) > _NOTABLE:
        pace = f"{say_factor(ratio)} times the forecast of {say_seconds(forecast['median'])}"
    lines[-1] += f"; on this configuration alone {pace}." if has_segments else f": {pace}."
    weight = document["observed_weight"]
    lines.append(
        f"The answer rests {say_probability(weight)} on its progress so far and"
        f" {say_probability(1 - weight)} on the forecast."
    )
    if document["ends_at"] is not None:
        lines.append(f"It ends about {document['ends_at']}.")
    if document["deadline_probability"] is not None:
        probability = say_probability(document["deadline_probability"])
        lines.append(f"It keeps the deadline with probability {probability}.")
    lines += plain_text.warning_sentences(document)
    return "\n".join(lines) + "\n"
