"""Routes of recommendations."""

from datetime import datetime

from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.accepted import accepted_type
from app.api.dependencies import Reader, ServicesDep
from app.api.documents.forecasts import Document, configuration_document, forecast_document
from app.api.documents.needed_changes import change_document
from app.api.forecasts import FORECAST_PROBLEMS
from app.api.negotiation import JSON, PLAIN_TEXT, TEXT
from app.api.requests.bodies import check, json_response, read_json, request_body
from app.api.requests.routers import ApiRouter
from app.api.schemas.recommendations import (
    RECOMMENDATION_EXAMPLE,
    RECOMMENDATION_IN,
    RecommendationIn,
    RecommendationOut,
)
from app.domain.recommendations import NextWorker, Recommendation

router = ApiRouter("/v1/recommendations", "recommendations")


@router.post(
    "",
    summary="Recommend a configuration",
    description="Searches configurations, keeps deadline and budget at the stated confidence,"
    " ranks by the objective. `Accept: text/plain` answers in sentences and a table.",
    responses={
        **FORECAST_PROBLEMS,
        200: {
            "model": RecommendationOut,
            "content": {TEXT: PLAIN_TEXT},
            "description": "The best configurations; none where nothing qualifies",
        },
    },
    openapi_extra=request_body(RecommendationIn, RECOMMENDATION_EXAMPLE),
)
async def recommend(request: Request, services: ServicesDep, caller: Reader) -> Response:
    search = check(RECOMMENDATION_IN, await read_json(request)).to_domain()
    recommendation = await run_in_threadpool(
        services.recommendations.recommend, caller.project_id, search
    )
    document = recommendation_document(recommendation, services.context.now())
    if accepted_type(request, (JSON, TEXT)) == TEXT:
        from app.api.documents import plain_text  # noqa: PLC0415 - programs ask for JSON

        return Response(plain_text.recommendation_text(document), media_type=TEXT)
    return json_response(document)


def _next_worker(gain: NextWorker | None) -> Document | None:
    if gain is None:
        return None
    return {
        "workers": gain.workers,
        "seconds_saved": gain.seconds_saved,
        "extra_cost": None if gain.extra_cost is None else format(gain.extra_cost, "f"),
        "currency": gain.currency,
        "seconds_per_money": gain.seconds_per_money,
    }


def recommendation_document(recommendation: Recommendation, now: datetime) -> Document:
    """Return the document of a recommendation."""
    ranked = [
        {"forecast": forecast_document(candidate, now)} for candidate in recommendation.ranked
    ]
    nearest = None
    if recommendation.nearest is not None:
        changes = [change_document(candidate) for candidate in recommendation.changes]
        nearest = {"forecast": forecast_document(recommendation.nearest, now), "changes": changes}
    return {
        "workload": recommendation.request.workload,
        "regressor_version": recommendation.regressor_version,
        "objective": recommendation.request.objective,
        "confidence": recommendation.request.confidence,
        "considered": recommendation.considered,
        "recommended": ranked[0] if ranked else None,
        "next_worker": _next_worker(recommendation.next_worker),
        "ranked": ranked,
        "pareto": [
            {"forecast": forecast_document(candidate, now)} for candidate in recommendation.pareto
        ],
        "rejected": [
            {
                "configuration": configuration_document(candidate.configuration),
                "reason": candidate.reason,
            }
            for candidate in recommendation.rejected
        ],
        "rejected_count": recommendation.rejected_count,
        "rejected_by_reason": dict(recommendation.rejected_by_reason),
        "nearest": nearest,
    }
