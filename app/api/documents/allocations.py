"""Documents and tables of allocations."""

from typing import Any

from app.api import problems
from app.api.documents.schedules import Document, expectation_document, say_band, say_on_time
from app.api.schemas.quantities import plain_number, significant
from app.domain.allocations import ANY_TYPE, AllocatedJob, Allocation, OmittedJob
from app.domain.wording import align, say_count, say_number, say_seconds, say_share

_PATH = "/v1/schedules:allocate"
_REASONS = {
    "no_forecast": "it cannot be forecast",
    "deadline": "no option keeps its deadline with the confidence asked",
    "price_unknown": "no price is known",
    "too_large": "its minimum of workers exceeds every GPU type it may use",
    "no_such_gpu": "the capacity has none of its GPU types",
    "no_worker_count": "none of its worker counts lies between its minimum and maximum",
    "capacity": "the capacity is used by jobs of greater weight",
}
_UNITS = {
    "throughput": "jobs an hour: {}",
    "mean_completion": "weighted mean completion: {}",
    "makespan": "every job has ended with the confidence asked within {}",
    "cost": "expected cost: {}",
}


def allocation_document(found: Allocation) -> Document:
    """Return the document of an allocation."""
    objective = found.objective
    return {
        "objective": found.request.goal,
        "objective_value": significant(objective, 7),
        "exact": found.is_exact,
        "gap": significant(found.gap, 3),
        "method": found.method,
        "capacity": dict(found.request.capacity),
        "used": dict(found.used),
        "allocated": [_allocated(each) for each in found.allocated],
        "left_out": [_omitted(each) for each in found.omitted],
    }


def _allocated(each: AllocatedJob) -> Document:
    probability, batch = each.deadline_probability, each.placed.batch_size
    return {
        "ref": each.job.ref,
        "workload": each.job.workload,
        "gpu_type": each.placed.gpu_type,
        "workers": each.placed.workers,
        "batch_size": None if batch is None else plain_number(batch),
        "change": each.move,
        "expected_completion_seconds": expectation_document(each.completion_seconds),
        "deadline_probability": significant(probability, 6),
        "cost": None if each.cost is None else format(each.cost, "f"),
        "currency": each.currency,
    }


def _omitted(each: OmittedJob) -> Document:
    problem = each.problem
    return {
        "ref": each.job.ref,
        "reason": each.reason,
        "problem": None if problem is None else problems.document_of(problem, instance=_PATH),
    }


def allocation_text(document: Document, confidence: float) -> str:
    """Return an allocation as a sentence, an aligned table and the jobs left out."""
    lines = [_summary(document), *_quality(document)]
    if document["allocated"]:
        header = [
            "ref",
            "GPU",
            "workers",
            "batch",
            "change",
            "ends in",
            f"{say_share(confidence)} interval",
        ]
        extra = ["on time"] if any(_has(document, "deadline_probability")) else []
        extra += ["cost"] if any(_has(document, "cost")) else []
        rows = [_row(each, extra) for each in document["allocated"]]
        lines += ["", align(header + extra, rows, left=2)]
    notes = [
        f"{each['ref']} gets nothing: {_REASONS[each['reason']]}"
        f"{'' if each['problem'] is None else ' (' + each['problem']['detail'] + ')'}"
        for each in document["left_out"]
    ]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _has(document: Document, member: str) -> list[bool]:
    return [each[member] is not None for each in document["allocated"]]


def _summary(document: Document) -> str:
    used = ", ".join(
        f"{document['used'][name]} of {gpus} {'workers' if name == ANY_TYPE else f'x {name}'}"
        for name, gpus in document["capacity"].items()
    )
    return f"{say_count(len(document['allocated']), 'job')} on {used}."


def _quality(document: Document) -> list[str]:
    value: Any = document["objective_value"]
    if value is None:
        return []
    name = document["objective"]
    said = say_seconds(value) if name in {"mean_completion", "makespan"} else say_number(value)
    if document["exact"]:
        quality = "no other allocation is better"
    elif document["gap"] is None:
        quality = "how much better another could be is not known"
    else:
        quality = f"another could be better by at most {say_share(document['gap'])}"
    text = _UNITS[name].format(said)
    # All costs of an allocation by cost are in one currency.
    money = {each["currency"] for each in document["allocated"]} if name == "cost" else ()
    return [f"{' '.join([text[0].upper() + text[1:], *money])}; {quality}."]


def _row(each: Document, extra: list[str]) -> list[str]:
    band, batch = each["expected_completion_seconds"], each["batch_size"]
    further = {
        "on time": say_on_time(each["deadline_probability"]),
        "cost": f"{each['cost'] or '-'} {each['currency'] or ''}".strip(),
    }
    return [
        each["ref"],
        "-" if each["gpu_type"] == ANY_TYPE else each["gpu_type"],
        str(each["workers"]),
        "-" if batch is None else say_number(batch),
        each["change"],
        say_seconds(band["expected"]),
        say_band(band),
        *(further[name] for name in extra),
    ]
