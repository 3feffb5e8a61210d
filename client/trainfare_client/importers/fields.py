"""The fields of an upload that an import may fill, in the order of their columns."""

from __future__ import annotations

import re
from typing import Final

from trainfare_client.importers.asked import nearest_hint

PLAIN_FIELDS: Final = (
    "workload",
    "external_id",
    "status",
    "duration_seconds",
    "progress",
    "started_at",
    "ended_at",
    "gpu_type",
    "instance_type",
    "provider",
    "region",
    "purchase",
    "nodes",
    "workers",
    "dataset_size",
    "batch_size",
    "epochs",
    "cost_usd",
    "cost_amount",
    "cost_currency",
    "forecast_id",
    "excluded_reason",
)
RESOURCES: Final = (
    "peak_gpu_memory_bytes",
    "peak_memory_bytes",
    "gpu_utilization",
    "cpu_utilization",
    "energy_joules",
    "samples_to_target",
    "epochs_to_target",
)
_STATUS_SYNONYMS: Final = {
    "succeeded": "success successful finished completed complete done ok",
    "failed": "failure crashed crash error errored",
    "out_of_memory": "oom outofmemory",
    "preempted": "preempting",
    "timed_out": "timeout timedout",
    "cancelled": "canceled killed aborted",
}
STATUSES: Final = tuple(_STATUS_SYNONYMS)
_UNFINISHED: Final = frozenset({"running", "pending", "queued", "scheduled", "in_progress"})
NUMBERS: Final = frozenset(
    {
        "duration_seconds",
        "progress",
        "nodes",
        "workers",
        "dataset_size",
        "batch_size",
        "epochs",
    }
)
_ALIASES: Final = {
    "duration_s": "duration_seconds",
    "run_id": "external_id",
    "framework": "param.framework",
    "samples_to_target": "resource.samples_to_target",
    "epochs_to_target": "resource.epochs_to_target",
}
_MEMBER: Final = re.compile(
    r"(param|label)\.\S(.{0,98}\S)?|phase\.[A-Za-z0-9][\w.\-]{0,90}_seconds", re.ASCII
)


def field_of(name: str) -> str | None:
    """Return the field that a name stands for, None if there is none.

    Examples
    --------
    >>> field_of("duration_s"), field_of("param.depth"), field_of("batchsize")
    ('duration_seconds', 'param.depth', None)
    """
    field = _ALIASES.get(name, name)
    family, _, member = field.partition(".")
    if field in PLAIN_FIELDS or (family == "resource" and member in RESOURCES):
        return field
    if family == "param" and member in PLAIN_FIELDS:
        return None
    return field if _MEMBER.fullmatch(field) else None


def is_number_field(name: str) -> bool:
    """Return whether a field takes numbers only; a parameter may take either.

    Examples
    --------
    >>> is_number_field("workers"), is_number_field("gpu_type"), is_number_field("param.width")
    (True, False, False)
    """
    return name in NUMBERS or name.startswith(("phase.", "resource."))


def status_of(word: str) -> str | None:
    """Return how a run ended, given another tool's word for it; None if it has not ended.

    Raises
    ------
    ValueError
        If the word is unknown.

    Examples
    --------
    >>> status_of("finished"), status_of("Timed Out"), status_of("killed"), status_of("running")
    ('succeeded', 'timed_out', 'cancelled', None)
    """
    normalized = word.strip().casefold().replace(" ", "_").replace("-", "_")
    if normalized in _UNFINISHED:
        return None
    for status, synonyms in _STATUS_SYNONYMS.items():
        if normalized == status or normalized in synonyms.split():
            return status
    raise ValueError(word)


def unknown_field_remedy(name: str) -> str:
    """Return what to write instead of a field that does not exist."""
    hint = nearest_hint(name, PLAIN_FIELDS)
    return (
        f"{hint}A parameter of your own is param.NAME, a phase phase.NAME_seconds,"
        " a label label.NAME."
    )


def column_order(name: str) -> tuple[int, str]:
    """Return the sort key of a column: the plain fields in their order, then the families."""
    if name in PLAIN_FIELDS:
        return PLAIN_FIELDS.index(name), ""
    return len(PLAIN_FIELDS), name
