"""What experiment trackers log of a run, as fields of an upload."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Final

from trainfare_client.importers.expressions import number_in
from trainfare_client.importers.faults import RowError
from trainfare_client.importers.fields import NUMBERS, PLAIN_FIELDS, RESOURCES, field_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from trainfare_client.importers.expressions import Cell
    from trainfare_client.importers.faults import Report

MAX_VALUE: Final = 500
"""The most characters of a parameter's or a label's value."""

_ALIASES: Final = {
    "batch_size": ("batch_size", "global_batch_size", "train_batch_size"),
    "epochs": ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs"),
    "dataset_size": ("dataset_size", "num_samples", "n_samples", "num_examples"),
    "workers": ("workers", "world_size", "num_gpus", "n_gpus", "num_processes"),
    "nodes": ("nodes", "num_nodes", "nnodes"),
    "gpu_type": ("gpu_type", "gpu_name"),
    "instance_type": ("instance_type",),
}
_MEASURED: Final = NUMBERS - {"duration_seconds", "progress"}
_YEAR_10000_S: Final = 253_402_300_800
_TOO_LONG: Final = "parameters whose name or value is too long or cannot be printed"
_NAMED_AS_A_FIELD: Final = "parameters with the name of a field that they do not fill"


def described(
    parameters: Mapping[str, str], requested: Collection[str], report: Report
) -> dict[str, Cell]:
    """Return the work, the configuration and the parameters that a run's parameters describe.

    Parameters
    ----------
    requested
        The parameters to take beside the work and the configuration; all if none is named.
    """
    fields: dict[str, Cell] = {}
    used = set()
    for name, aliases in _ALIASES.items():
        chosen = next(
            (alias for alias in aliases if _is_valid(name, parameters.get(alias, ""))), None
        )
        if chosen is not None:
            fields[name] = parameters[chosen].strip()
            used.add(chosen)
    for name in parameters:
        if name in used or (requested and name not in requested):
            continue
        value = parameters[name].strip()
        if len(value) <= MAX_VALUE and value.isprintable() and field_of(f"param.{name}"):
            fields[f"param.{name}"] = value
        else:
            report.leave_out(_NAMED_AS_A_FIELD if name in PLAIN_FIELDS else _TOO_LONG)
    return fields


def _is_valid(name: str, value: str) -> bool:
    if name not in NUMBERS:
        return bool(value.strip())
    try:
        number = number_in(value, name)
    except RowError:
        return False
    return number is not None and number > 0


def measured(
    metrics: Mapping[str, float], largest: Mapping[str, float], *, is_complete: bool
) -> dict[str, Cell]:
    """Return the fields that a run's metrics measure: the last values, the largest of resources.

    The duration is not among them: trackers know it themselves, and a map can take a metric. A
    metric `progress` is one if it is a share; that of a complete run was logged before its end.
    """
    fields: dict[str, Cell] = {
        name: value
        for name, value in metrics.items()
        if (name in _MEASURED and value > 0)
        or (name == "progress" and 0 < value <= 1 and not is_complete)
        or (name.startswith("phase.") and field_of(name))
    }
    return fields | {f"resource.{name}": largest[name] for name in RESOURCES if name in largest}


def instant_of(seconds: float) -> str | None:
    """Return the instant that is some seconds after 1970; None beyond the year 9999.

    Examples
    --------
    >>> instant_of(1_795_259_000.5), instant_of(1e12)
    ('2026-11-21T11:03:20.500+00:00', None)
    """
    if seconds >= _YEAR_10000_S:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds")
