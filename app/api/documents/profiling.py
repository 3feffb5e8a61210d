"""Writes profiling plans as JSON documents and as text."""

from collections.abc import Mapping
from typing import Any, Final

from app.api.documents.forecasts import Document, rounded_band, scenario_document, warning_documents
from app.api.schemas.quantities import money_text, significant
from app.domain.flat_fields import say_members
from app.domain.profiling import PlannedRun, ProfilingPlan, StopReason, TargetOutlook
from app.domain.wording import align, say_count, say_factor, say_seconds

_DIGITS: Final = 4
_SHOWN: Final = 5
"""Targets that are described in sentences, at most."""


def plan_document(plan: ProfilingPlan, request: Mapping[str, Any]) -> Document:
    """Return the document of a plan; it echoes `request`, so that it can be requested again."""
    rule = plan.request.stop
    return {
        "workload": plan.request.workload,
        "regressor_version": plan.regressor_version,
        "basis": "prior" if plan.regressor_version is None else "regressor",
        "confidence": plan.request.confidence,
        "currency": plan.currency,
        "budget": None if plan.request.budget is None else format(plan.request.budget, "f"),
        "spent": _money(plan.spent) if plan.request.made else None,
        "considered": plan.considered,
        "runs": [_run(order, run) for order, run in enumerate(plan.runs, 1)],
        "total_price": _money(plan.runs[-1].total_price) if plan.runs else None,
        "targets": [_target(target) for target in plan.targets],
        "width": significant(plan.width, _DIGITS),
        "expected_width": significant(plan.expected_width, _DIGITS),
        "attainable_width": significant(plan.attainable_width, _DIGITS),
        "stop": {
            "reason": plan.stop,
            "message": _stop_sentence(plan),
            "width": rule.width,
            "min_narrowing": rule.min_narrowing,
            "min_narrowing_per_cost": rule.min_narrowing_per_cost,
        },
        "rejected": [
            {**scenario_document(candidate.scenario), "reason": candidate.reason}
            for candidate in plan.rejected
        ],
        "rejected_count": plan.rejected_count,
        "warnings": warning_documents(plan.warnings),
        "request": dict(request),
    }


def _run(order: int, run: PlannedRun) -> Document:
    return {
        "order": order,
        **scenario_document(run.scenario),
        "duration_seconds": rounded_band(run.duration),
        "price": _money(run.price),
        "price_per_hour": None if run.price_per_hour is None else money_text(run.price_per_hour),
        "total_price": _money(run.total_price),
        "narrowing": significant(run.narrowing, _DIGITS),
        "width": significant(run.width, _DIGITS),
    }


def _target(target: TargetOutlook) -> Document:
    return {
        **scenario_document(target.scenario),
        "now": rounded_band(target.now),
        "expected": rounded_band(target.expected),
        "width": significant(target.width, _DIGITS),
        "expected_width": significant(target.expected_width, _DIGITS),
    }


def _money(amount: object) -> str | None:
    return None if amount is None else format(amount, "f")


def _stop_sentence(plan: ProfilingPlan) -> str:
    rule, share = plan.request.stop, f"{100 * plan.request.stop.min_narrowing:.3g}%"
    match plan.stop:
        case StopReason.GOAL_REACHED:
            return f"Stop when the interval's width is at most {rule.width:g} of the median."
        case StopReason.GAIN_TOO_SMALL if rule.min_narrowing_per_cost is not None:
            return (
                f"Stop here: no further candidate narrows the interval by {share}, or by"
                f" {rule.min_narrowing_per_cost:g} of the median for a unit of money."
            )
        case StopReason.GAIN_TOO_SMALL:
            return f"Stop here: no further candidate narrows the interval by {share}."
        case StopReason.BUDGET_SPENT:
            return "Stop here: the budget allows no further run."
        case StopReason.RUNS_PLANNED:
            return "Measure these, fit, and ask for the next plan."
        case StopReason.CANDIDATES_EXHAUSTED:
            return "Stop here: no candidate is left."


def plan_text(document: Document) -> str:
    """Return a plan as a plain-text table of its runs with their expected benefit."""
    runs, targets, confidence = document["runs"], document["targets"], document["confidence"]
    candidates = say_count(document["considered"], "configuration")
    if runs:
        price = "" if document["total_price"] is None else f" for about {_priced(document)}"
        task = f"measure {say_count(len(runs), 'run')}{price}"
        head = f"{document['workload']}: {task}, chosen from {candidates}."
        lines = [head, "", _table(document), ""]
    else:
        lines = [f"{document['workload']}: nothing to measure among {candidates}.", ""]
    lines += [_target_sentence(target, confidence) for target in targets[:_SHOWN]]
    hidden = len(targets) - _SHOWN
    lines += [f"... and {say_count(hidden, 'more target')}."] if hidden > 0 else []
    lines.append(document["stop"]["message"])
    lines += [
        f"Warning ({warning['code']}): {warning['message']} {warning['remedy']}"
        for warning in document["warnings"]
    ]
    return "\n".join(lines) + "\n"


def _priced(document: Document) -> str:
    return f"{document['total_price']} {document['currency']}"


def _table(document: Document) -> str:
    members = [say_members(run) for run in document["runs"]]
    names = list(dict.fromkeys(name for row in members for name in row))
    rows = [
        [
            str(run["order"]),
            *(row.get(name, "-") for name in names),
            _median(run["duration_seconds"]),
            "-" if run["price"] is None else f"{run['price']} {document['currency']}",
            _percent(run["width"]),
        ]
        for run, row in zip(document["runs"], members, strict=True)
    ]
    return align(["run", *names, "duration", "price", "width after"], rows)


def _median(band: Document | None) -> str:
    return "-" if band is None else say_seconds(band["median"])


def _percent(width: float) -> str:
    """Return a width as a percentage of the median, a huge one as a factor."""
    return f"{100 * width:.3g}%" if width < 1 else f"{say_factor(width)} x"


def _target_sentence(target: Document, confidence: float) -> str:
    members = ", ".join(f"{name} {value}" for name, value in say_members(target).items())
    now, expected = target["now"], target["expected"]
    if now is None:
        return f"Target ({members}): nothing is known about its duration yet."
    return (
        f"Target ({members}): about {say_seconds(now['median'])}, with {100 * confidence:g}%"
        f" confidence {say_seconds(now['lower'])} to {say_seconds(now['upper'])} now,"
        f" expected {say_seconds(expected['lower'])} to {say_seconds(expected['upper'])} after."
    )
