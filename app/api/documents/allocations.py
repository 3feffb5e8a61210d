"""Documents and tables of allocations."""

from operator import itemgetter
from typing import Any

from app.api import problems
from app.api.documents.forecasts import warning_documents
from app.api.documents.schedules import (
    Document,
    expectation_document,
    say_band,
    say_on_time,
    say_warnings,
)
from app.api.schemas.quantities import plain_number, significant
from app.domain.allocations import ANY_TYPE, AllocatedJob, Allocation, Omission, OmittedJob, Placed
from app.domain.errors import DomainError
from app.domain.wording import (
    align,
    say_amount,
    say_count,
    say_number,
    say_seconds,
    say_share,
    say_workers,
)

_PATH = "/v1/schedules:allocate"
_REASONS = {
    "no_forecast": "it cannot be forecast",
    "beyond_range": "none of its options lies within the measured ranges",
    "out_of_memory": "none of its options fits into GPU memory with the confidence asked",
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


def allocation_document(allocation: Allocation) -> Document:
    """Return the document of an allocation."""
    objective = allocation.objective
    return {
        "objective": allocation.request.goal,
        "objective_value": significant(objective, 7),
        "exact": allocation.is_exact,
        "gap": significant(allocation.gap, 3),
        "method": allocation.method,
        "capacity": dict(allocation.request.capacity),
        "used": dict(allocation.used),
        "allocated": [_allocated(job) for job in allocation.allocated],
        "left_out": [_omitted(job) for job in allocation.omitted],
        "left_out_types": [
            {"gpu_type": omitted.gpu_type, **_reason(omitted.reason, omitted.problem)}
            for omitted in allocation.omitted_types
        ],
    }


def _allocated(job: AllocatedJob) -> Document:
    return {
        "ref": job.job.ref,
        "workload": job.job.workload,
        **_placed(job.placed),
        "change": job.move,
        "expected_completion_seconds": expectation_document(job.completion_seconds),
        "deadline_probability": significant(job.deadline_probability, 6),
        "cost": None if job.cost is None else format(job.cost, "f"),
        "currency": job.currency,
        "warnings": warning_documents(job.warnings),
    }


def _omitted(job: OmittedJob) -> Document:
    return {
        "ref": job.job.ref,
        **_reason(job.reason, job.problem),
        "keeps": None if job.keeps is None else _placed(job.keeps),
    }


def _reason(reason: Omission, problem: DomainError | None) -> Document:
    return {
        "reason": reason,
        "problem": None if problem is None else problems.document_of(problem, instance=_PATH),
    }


def _placed(placed: Placed) -> Document:
    batch = placed.batch_size
    return {
        "gpu_type": placed.gpu_type,
        "workers": placed.workers,
        "batch_size": None if batch is None else plain_number(batch),
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
        extra = ["on time"] if any(_presence(document, "deadline_probability")) else []
        extra += ["cost"] if any(_presence(document, "cost")) else []
        rows = [_row(entry, extra) for entry in document["allocated"]]
        lines += ["", align(header + extra, rows, left=2)]
    notes = say_warnings(
        (entry["ref"], warning) for entry in document["allocated"] for warning in entry["warnings"]
    )
    notes += [
        f"{entry['ref']} {_share(entry['keeps'])}: {_say_reason(entry)}"
        for entry in document["left_out"]
    ]
    notes += [
        f"No job gets {entry['gpu_type']}: {_say_reason(entry)}"
        for entry in document["left_out_types"]
    ]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _share(keeps: Document | None) -> str:
    if keeps is None:
        return "gets nothing"
    name = keeps["gpu_type"]
    return f"keeps {say_workers(keeps['workers'], None if name == ANY_TYPE else name)}"


def _say_reason(entry: Document) -> str:
    problem = entry["problem"]
    detail = "" if problem is None else f" ({problem['detail']})"
    return _REASONS[entry["reason"]] + detail


def _presence(document: Document, member: str) -> list[bool]:
    return [entry[member] is not None for entry in document["allocated"]]


def _summary(document: Document) -> str:
    running = [*document["allocated"], *filter(itemgetter("keeps"), document["left_out"])]
    used = ", ".join(
        f"{document['used'][name]:,} of {say_workers(gpus, None if name == ANY_TYPE else name)}"
        for name, gpus in document["capacity"].items()
    )
    return f"{say_count(len(running), 'job')} on {used}."


def _quality(document: Document) -> list[str]:
    value: Any = document["objective_value"]
    if value is None:
        return []
    name = document["objective"]
    amount = say_seconds(value) if name in {"mean_completion", "makespan"} else say_amount(value)
    if document["exact"]:
        quality = "no other allocation is better"
    elif document["gap"] is None:
        quality = "how much better another could be is not known"
    else:
        quality = f"another could be better by at most {say_share(document['gap'])}"
    text = _UNITS[name].format(amount)
    # All costs of an allocation by cost are in one currency.
    money = {entry["currency"] for entry in document["allocated"]} if name == "cost" else ()
    return [f"{' '.join([text[0].upper() + text[1:], *money])}; {quality}."]


def _row(entry: Document, extra: list[str]) -> list[str]:
    band, batch = entry["expected_completion_seconds"], entry["batch_size"]
    further = {
        "on time": say_on_time(entry["deadline_probability"]),
        "cost": f"{entry['cost'] or '-'} {entry['currency'] or ''}".strip(),
    }
    return [
        entry["ref"],
        "-" if entry["gpu_type"] == ANY_TYPE else entry["gpu_type"],
        str(entry["workers"]),
        "-" if batch is None else say_number(batch),
        entry["change"],
        say_seconds(band["expected"]),
        say_band(band),
        *(further[name] for name in extra),
    ]
