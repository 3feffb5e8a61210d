"""Routes of fits: request, follow, cancel."""

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import BeforeValidator
from starlette.concurrency import run_in_threadpool

from app.api.dependencies import FitsWriter, Reader, ServicesDep, WorkloadPath
from app.api.paths import allow_segments
from app.api.problems import problem_responses
from app.api.requests.preferences import WaitPreference, applied
from app.api.requests.routers import ApiRouter
from app.api.schemas.base import PageQuery
from app.api.schemas.fits import FitIn, FitOut, FitsOut
from app.api.schemas.headers import headed
from app.domain.errors import NotEnoughRunsError, NotFoundError, UnknownWorkloadError
from app.domain.fits import Fit

allow_segments()
router = ApiRouter("/v1", "fits")
_RETRY_AFTER_S = 2
_FitPath = Annotated[str, Path(description="the fit's id", max_length=100)]
_FitBody = Annotated[
    FitIn,
    Body(default_factory=FitIn),
    # Null is taken as no body, but not described: some generated clients fail to leave it out.
    BeforeValidator(lambda body: {} if body is None else body),
]
_FIT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "model": FitOut,
        "description": "The active fit, or the new one when it ended in time",
        **headed("Location", "Retry-After", "Preference-Applied"),
    },
    202: {
        "model": FitOut,
        "description": "A new fit; follow its `Location`",
        **headed("Location", "Retry-After", "Preference-Applied"),
    },
}


async def _admission(request: Request, services: ServicesDep) -> Callable[[], Awaitable[bool]]:
    """Return a check, for long-lived requests, that the caller's access is still valid."""
    authorization = request.headers.get("authorization")
    return partial(services.access.still_admits, authorization, request.scope["state"]["principal"])


_Admission = Annotated[Callable[[], Awaitable[bool]], Depends(_admission)]


@router.post(
    "/workloads/{workload}/fits",
    status_code=202,
    summary="Ask for a fit",
    description="Fits the workload's regressor in the background. One fit per workload is active"
    " at a time: another request gets the active one. `Prefer: wait=N` waits for the end.",
    responses={**problem_responses(UnknownWorkloadError, NotEnoughRunsError), **_FIT_RESPONSES},
)
async def request_fit(
    workload: WorkloadPath,
    services: ServicesDep,
    caller: FitsWriter,
    response: Response,
    wait_s: WaitPreference,
    is_admitted: _Admission,
    body: _FitBody,
) -> FitOut:
    settings = services.context.settings
    request = body.to_request(default_budget_s=settings.fit_time_budget_s)
    fit, is_new = await run_in_threadpool(
        services.fits.request_fit, caller.project_id, workload, request, key_id=caller.key_id
    )
    fit = await services.fits.wait(caller.project_id, fit, wait_s or 0, is_admitted)
    _set_status_and_headers(response, fit, is_new=is_new, wait_s=wait_s)
    return FitOut.of(fit)


def _set_status_and_headers(
    response: Response, fit: Fit, *, is_new: bool, wait_s: int | None
) -> None:
    response.status_code = 202 if is_new and not fit.state.is_final else 200
    response.headers["Location"] = f"/v1/fits/{fit.fit_id}"
    if not fit.state.is_final:
        response.headers["Retry-After"] = str(_RETRY_AFTER_S)
    if wait_s is not None:
        response.headers.update(applied(wait_s))


@router.get(
    "/workloads/{workload}/fits",
    summary="List a workload's fits",
    description="Newest first.",
    responses=problem_responses(UnknownWorkloadError),
)
def list_fits(
    workload: WorkloadPath,
    services: ServicesDep,
    caller: Reader,
    query: Annotated[PageQuery, Query()],
) -> FitsOut:
    page = services.fits.list_page(
        caller.project_id, workload, page_size=query.page_size, page_token=query.page_token
    )
    return FitsOut.of(page)


def _stored_fit(fit: _FitPath, services: ServicesDep, caller: Reader) -> Fit:
    return services.fits.get(caller.project_id, fit)


_StoredFit = Annotated[Fit, Depends(_stored_fit)]


@router.get(
    "/fits/{fit:segment}",
    summary="Show a fit",
    description="`Prefer: wait=N` waits for the end of an active fit.",
    responses={**problem_responses(NotFoundError), 200: headed("Preference-Applied")},
)
async def get_fit(
    fit: _StoredFit,
    services: ServicesDep,
    caller: Reader,
    response: Response,
    wait_s: WaitPreference,
    is_admitted: _Admission,
) -> FitOut:
    latest = await services.fits.wait(caller.project_id, fit, wait_s or 0, is_admitted)
    response.headers.update({} if wait_s is None else applied(wait_s))
    return FitOut.of(latest)


@router.post(
    "/fits/{fit:segment}:cancel",
    summary="Cancel a fit",
    description="A queued fit ends at once, a running one at its next step; one that has ended"
    " stays as it is.",
    responses=problem_responses(NotFoundError),
)
def cancel_fit(fit: _FitPath, services: ServicesDep, caller: FitsWriter) -> FitOut:
    return FitOut.of(services.fits.cancel(caller.project_id, fit, key_id=caller.key_id))


@router.get(
    "/fits/{fit:segment}/events",
    summary="Follow a fit",
    description="Server-sent events: `progress` with the fit whenever it changes, `end` with the"
    " fit that has ended; then the stream ends, as it does without `end` soon after the key is"
    " revoked or expires.",
    response_class=EventSourceResponse,
    responses=problem_responses(NotFoundError),
)
async def follow_fit(
    fit: _StoredFit, services: ServicesDep, caller: Reader, is_admitted: _Admission
) -> AsyncIterator[ServerSentEvent]:
    async for latest in services.fits.follow(caller.project_id, fit, is_admitted):
        name = "end" if latest.state.is_final else "progress"
        yield ServerSentEvent(event=name, data=FitOut.of(latest))
