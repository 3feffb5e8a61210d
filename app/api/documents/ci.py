"""Writes new CI reports as JSON documents."""

from typing import Any

from app.api.documents.ci_markdown import comment, signed_money, summary
from app.api.documents.forecasts import configuration_document
from app.api.schemas.fits import FitOut
from app.api.schemas.quantities import plain_number
from app.domain.accuracy import DriftReport
from app.domain.ci import CONFIDENCE, CiReport, CostChange, JudgedRun, RunCost
from app.domain.instants import instant_text

Document = dict[str, Any]


def report_document(report: CiReport) -> Document:
    """Return the document of a new report."""
    request, fits = report.request, report.fits
    return {
        "report_id": report.report_id,
        "created_at": instant_text(report.created_at),
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "summary": summary(report),
        "runs": [
            _run_document(judged, is_duplicate=is_duplicate)
            for judged, is_duplicate in zip(report.runs, report.duplicates, strict=True)
        ],
        "drift": [_drift_document(slug, drift) for slug, drift in report.drifts.items()],
        "cost_change": None if report.cost_change is None else _cost(report.cost_change),
        "comment_markdown": comment(report),
        "fit": FitOut.of(fits[0]).model_dump(mode="json") if fits else None,
        "commit": request.commit,
        "branch": request.branch,
        "base_branch": request.base_branch,
        "pull_request": request.pull_request,
        "acknowledged": None,
        "promoted_at": None,
    }


def _run_document(judged: JudgedRun, *, is_duplicate: bool) -> Document:
    run = judged.run
    return {
        "run_id": run.run_id,
        "workload": run.workload,
        "external_id": run.external_id,
        "duplicate": is_duplicate,
        "configuration": configuration_document(run.scenario.configuration),
        "observed_seconds": plain_number(run.duration_seconds),
        "expected_seconds": _expected(judged),
        "ratio": judged.ratio,
        "p_value": judged.p_value,
        "verdict": judged.verdict,
        "regressor_version": judged.regressor_version,
        "reason": judged.reason,
        "cost": None if judged.cost is None else _run_cost(judged.cost),
    }


def _run_cost(cost: RunCost) -> Document:
    amounts = {"observed": cost.observed, "expected": cost.expected}
    shown = {name: signed_money(amount).removeprefix("+") for name, amount in amounts.items()}
    return {**shown, "currency": cost.currency}


def _expected(judged: JudgedRun) -> Document | None:
    bounds = (
        judged.expected_median_seconds,
        judged.expected_lower_seconds,
        judged.expected_upper_seconds,
    )
    seconds = [plain_number(value) for value in bounds if value is not None]
    if len(seconds) < len(bounds):
        return None
    median, lower, upper = seconds
    return {"median": median, "lower": lower, "upper": upper, "confidence": CONFIDENCE}


def _drift_document(slug: str, drift: DriftReport) -> Document:
    since = drift.since
    return {
        "workload": slug,
        "direction": drift.direction,
        "change_ratio": float(f"{drift.change_ratio:.6g}"),
        "since": None if since is None else instant_text(since.created_at),
        "since_run": None if since is None else since.run_id,
        "runs": drift.runs,
    }


def _cost(change: CostChange) -> Document:
    return {
        "per_run": signed_money(change.per_run).removeprefix("+"),
        "per_month": None
        if change.per_month is None
        else signed_money(change.per_month).removeprefix("+"),
        "runs_per_month": change.runs_per_month,
        "currency": change.currency,
    }
