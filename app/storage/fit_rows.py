"""Translates fits between rows and the domain."""

from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from app.domain.fits import Candidate, Fit, FitProblem, FitRequest, FitState, PublishMode
from app.domain.identifiers import FitId, Slug
from app.storage.tables import FitRow, Json

CANCELLED_STEP = "cancelled"
_LONGEST_LEASE: Final = timedelta(days=1)


def request_document(request: FitRequest) -> Json:
    """Return a request as it is stored."""
    return {
        "time_budget_s": request.time_budget_s,
        "seed": request.seed,
        "regressors": None if request.regressors is None else list(request.regressors),
        "publish": request.publish.value,
        "runs_since": None if request.runs_since is None else request.runs_since.isoformat(),
    }


def _to_request(document: Json) -> FitRequest:
    names, since = document["regressors"], document["runs_since"]
    return FitRequest(
        time_budget_s=document["time_budget_s"],
        seed=document["seed"],
        regressors=None if names is None else tuple(names),
        publish=PublishMode(document["publish"]),
        runs_since=None if since is None else datetime.fromisoformat(since),
    )


def candidate_document(candidate: Candidate) -> Json:
    """Return a candidate as it is stored."""
    return {
        "regressor": candidate.regressor,
        "weight": candidate.weight,
        "mape": candidate.mape,
        "by_axis": dict(candidate.by_axis),
    }


def to_fit(row: FitRow, slug: str) -> Fit:
    """Return the fit of a row."""
    return Fit(
        fit_id=FitId(row.id),
        workload=Slug(slug),
        state=FitState(row.state),
        request=_to_request(row.request),
        requested_at=row.requested_at,
        progress=row.progress,
        step=row.step,
        started_at=row.started_at,
        seen_until=row.seen_until,
        ended_at=row.ended_at,
        attempts=row.attempts,
        candidates=tuple(Candidate(**document) for document in row.candidates or ()),
        regressor_version=row.regressor_version,
        published=row.published,
        problem=None if row.problem is None else FitProblem(**row.problem),
        cancel_requested=row.cancel_requested,
    )


def seen_until(fit: Any) -> sa.ColumnElement[datetime]:
    """Return when the last run that a fit used was stored or included.

    A fit that did not record what it saw is assumed to have seen what was there when it began.
    """
    return sa.func.coalesce(fit.seen_until, fit.started_at, fit.requested_at)


def is_lapsed(row: Any, now: datetime) -> sa.ColumnElement[bool]:
    """Return whether a fit's fitter has been silent for longer than its lease.

    No lease is longer than a day: one that ends later was written by a clock that was ahead.
    """
    end = row.lease_expires_at
    has_ended = sa.or_(end <= now, end > now + _LONGEST_LEASE)
    return sa.and_(row.state == FitState.RUNNING, has_ended)
