"""Documents and tables of ordered queues."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.api import problems
from app.api.documents.forecasts import warning_documents
from app.api.schemas.quantities import significant
from app.domain.instants import second_text
from app.domain.schedules import Band, RankedJob, Ranking
from app.domain.wording import (
    align,
    say_count,
    say_name,
    say_probability,
    say_rounded,
    say_seconds,
    say_share,
)

Document = dict[str, Any]
RANK_PATH = "/v1/schedules:rank"


def expectation_document(band: Band | None) -> Document | None:
    """Return the document of a quantity's mean, median and bounds."""
    if band is None:
        return None
    return {
        "expected": significant(band.expected, 7),
        "median": significant(band.median, 7),
        "lower": significant(band.lower, 7),
        "upper": significant(band.upper, 7),
    }


def ranking_document(ranking: Ranking) -> Document:
    """Return the document of an ordered queue."""
    return {
        "policy": ranking.request.policy,
        "confidence": ranking.request.confidence,
        "ranked": [
            _ranked_document(position, job) for position, job in enumerate(ranking.ranked, 1)
        ],
        "failed": sum(job.problem is not None for job in ranking.ranked),
    }


def _ranked_document(position: int, ranked: RankedJob) -> Document:
    probability = ranked.deadline_probability
    problem = ranked.problem
    return {
        "position": position,
        "ref": ranked.job.ref,
        "workload": ranked.job.workload,
        "priority": ranked.priority,
        "expected_service_gpu_seconds": expectation_document(ranked.service),
        "remaining_seconds": expectation_document(ranked.remaining_seconds),
        "waited_s": ranked.waited_s,
        "deadline_probability": significant(probability, 6),
        "latest_start": second_text(ranked.latest_start),
        "problem": None if problem is None else problems.document_of(problem, instance=RANK_PATH),
        "warnings": warning_documents(ranked.warnings),
    }


def say_band(band: Mapping[str, float]) -> str:
    """Return the bounds of a duration in words."""
    return f"{say_seconds(band['lower'])} .. {say_seconds(band['upper'])}"


def say_on_time(probability: float | None) -> str:
    """Return the probability that a job keeps its deadline, a dash if it has none."""
    return "-" if probability is None else say_probability(probability)


def say_warnings(warnings: Iterable[tuple[str, Document]]) -> list[str]:
    """Return a line for each warning, given with the ref of its job."""
    return [f"{ref}: {warning['message']}" for ref, warning in warnings]


def ranking_text(document: Document) -> str:
    """Return an ordered queue as an aligned table, with notes on single jobs below."""
    ranked: Sequence[Document] = document["ranked"]
    if not ranked:
        return "The queue is empty.\n"
    confidence = say_share(document["confidence"])
    has_deadlines = any(job["deadline_probability"] is not None for job in ranked)
    header = ["ref", "workload", "priority", "GPU-hours", f"{confidence} interval", "remaining"]
    on_time = [[say_on_time(job["deadline_probability"])] * has_deadlines for job in ranked]
    rows = [_row(job) + cells for job, cells in zip(ranked, on_time, strict=True)]
    table = align(header + ["on time"] * has_deadlines, rows, left=2)
    notes = say_warnings((job["ref"], warning) for job in ranked for warning in job["warnings"])
    notes += [
        f"{job['ref']} cannot be forecast: {job['problem']['detail']}"
        for job in ranked
        if job["problem"] is not None
    ]
    title = f"{say_count(len(ranked), 'job')}, {say_name(document['policy'])}:"
    return "\n".join([title, "", table, *([""] if notes else []), *notes]) + "\n"


def _row(ranked: Document) -> list[str]:
    service = ranked["expected_service_gpu_seconds"]
    name = [ranked["ref"], ranked["workload"], str(ranked["priority"])]
    if service is None:
        return [*name, "unknown", "-", "-"]
    hours = {key: value / 3600 for key, value in service.items()}
    return [
        *name,
        say_rounded(hours["expected"]),
        f"{say_rounded(hours['lower'])} .. {say_rounded(hours['upper'])}",
        say_seconds(ranked["remaining_seconds"]["expected"]),
    ]
