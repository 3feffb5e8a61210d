"""Documents and tables of future GPU demand."""

from app.api import problems
from app.api.documents.forecasts import warning_documents
from app.api.documents.schedules import Document, say_warnings
from app.api.schemas.quantities import significant
from app.domain.allocations import ANY_TYPE
from app.domain.capacity import CapacityView, OmittedFromDemand, TypeDemand
from app.domain.instants import second_text
from app.domain.wording import align, say_count, say_rounded, say_share

_PATH = "/v1/schedules:capacity"


def capacity_document(view: CapacityView) -> Document:
    """Return the document of a capacity view."""
    return {
        "confidence": view.request.confidence,
        "demand": [_demand(item) for item in view.demands],
        "left_out": [_omitted(item) for item in view.omitted],
    }


def _demand(demand: TypeDemand) -> Document:
    return {
        "gpu_type": demand.gpu_type,
        "capacity": demand.capacity,
        "ends_at": second_text(demand.ends_at),
        "hours": [
            {
                "begins_at": second_text(hour.begins_at),
                "expected_gpus": significant(hour.expected, 7),
                "lower_gpus": hour.lower,
                "upper_gpus": hour.upper,
                "may_switch_off": hour.may_switch_off,
            }
            for hour in demand.hours
        ],
        "warnings": [
            {"ref": note.job.ref, **document}
            for note, document in zip(
                demand.warnings,
                warning_documents([note.warning for note in demand.warnings]),
                strict=True,
            )
        ],
    }


def _omitted(job: OmittedFromDemand) -> Document:
    problem = job.problem
    return {
        "ref": job.job.ref,
        "reason": job.reason,
        "problem": None if problem is None else problems.document_of(problem, instance=_PATH),
    }


def capacity_text(document: Document) -> str:
    """Return a table for each GPU type; consecutive equal hours share a line."""
    parts = [_type_text(entry, say_share(document["confidence"])) for entry in document["demand"]]
    notes = say_warnings(
        (warning["ref"], warning) for entry in document["demand"] for warning in entry["warnings"]
    )
    notes += [
        f"{entry['ref']} "
        + (
            "is not counted: it never fits."
            if entry["problem"] is None
            else f"cannot be forecast: {entry['problem']['detail']}"
        )
        for entry in document["left_out"]
    ]
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else [])] or ["No jobs."]) + "\n"


def _type_text(demand: Document, confidence: str) -> str:
    capacity = demand["capacity"]
    is_any = demand["gpu_type"] == ANY_TYPE
    noun, name = ("worker", "Without a GPU") if is_any else ("GPU", demand["gpu_type"])
    size = "as many as needed" if capacity is None else say_count(capacity, noun)
    ends = demand["ends_at"]
    last = (
        "no end in sight" if ends is None else f"all ended by {ends} with {confidence} confidence"
    )
    header = ["from", "expected", f"peak ({confidence})", "may switch off"]
    rows: list[list[str]] = []
    for hour in demand["hours"]:
        spare = hour["may_switch_off"]
        row = [
            f"{hour['begins_at'][5:16].replace('T', ' ')}Z",
            say_rounded(hour["expected_gpus"]),
            f"{hour['lower_gpus']} .. {hour['upper_gpus']}",
            "-" if spare is None else str(spare),
        ]
        if not rows or rows[-1][1:] != row[1:]:
            rows.append(row)
    return "\n".join([f"{name}, {size}; {last}:", "", align(header, rows)])
