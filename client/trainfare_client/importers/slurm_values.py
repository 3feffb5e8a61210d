"""The values in the cells of sacct: states, times, resources."""

from __future__ import annotations

import re
from datetime import datetime, timezone, tzinfo
from typing import Final

from trainfare_client.importers.faults import RowError

_FINAL_STATES: Final = {
    "COMPLETED": "succeeded",
    "FAILED": "failed",
    "NODE_FAIL": "failed",
    "BOOT_FAIL": "failed",
    "LAUNCH_FAILED": "failed",
    "OUT_OF_MEMORY": "out_of_memory",
    "TIMEOUT": "timed_out",
    "DEADLINE": "timed_out",
    "PREEMPTED": "preempted",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    # A start that ended because somebody requeued its job; the next start is a row of its own.
    "REQUEUED": "cancelled",
}
_UNFINISHED_STATES: Final = frozenset(
    {
        "PENDING",
        "RUNNING",
        "REQUEUE_FED",
        "REQUEUE_HOLD",
        "SPECIAL_EXIT",
        "RESIZING",
        "SUSPENDED",
        "STOPPED",
        "SIGNALING",
        "STAGE_OUT",
        "COMPLETING",
        "CONFIGURING",
        "RESV_DEL_HOLD",
    }
)
_ELAPSED: Final = re.compile(r"(?:(\d{1,5})-)?(?:(\d{1,4}):)?(\d{1,2}):(\d{2}(?:\.\d+)?)", re.ASCII)
_ABSENT_INSTANTS: Final = frozenset({"", "Unknown", "None", "N/A", "Invalid", "0"})
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)[nc]?", re.ASCII)
_SIZES: Final = {"": 20, "K": 10, "M": 20, "G": 30, "T": 40, "P": 50}
_OLD_GRES: Final = re.compile(r"(?:gres[:/])?gpu(?::([^:=]+))?[:=](\d+)", re.ASCII)
_IN_PARENTHESES: Final = re.compile(r"\([^)]*\)")
"""Which of a node's GPUs they were, a list with commas of its own."""


def status_of(state: str) -> str | None:
    """Return how a job ended, None if it has not.

    Raises
    ------
    RowError
        If Slurm has no such state.

    Examples
    --------
    >>> status_of("CANCELLED by 1000"), status_of("TIMEOUT"), status_of("RUNNING")
    ('cancelled', 'timed_out', None)
    """
    word = state.strip().upper().partition(" ")[0].rstrip("+")
    if word in _UNFINISHED_STATES:
        return None
    if word in _FINAL_STATES:
        return _FINAL_STATES[word]
    # sacct cuts words to the width of their column, unless -P is given.
    statuses = {
        status for name, status in _FINAL_STATES.items() if len(word) > 1 and name.startswith(word)
    }
    if len(statuses) == 1:
        return statuses.pop()
    raise RowError(f"Slurm has no state {state[:40]!r}.", "Export with sacct --parsable2.")


def elapsed_s(text: str) -> float:
    """Return the seconds in Slurm's [DD-[HH:]]MM:SS, or in a plain number of seconds.

    Raises
    ------
    RowError
        If it is neither.

    Examples
    --------
    >>> elapsed_s("1-02:03:04"), elapsed_s("02:03"), elapsed_s("86400")
    (93784.0, 123.0, 86400.0)
    """
    if text.strip().isdecimal():
        return float(text)
    match = _ELAPSED.fullmatch(text.strip())
    if match is None:
        raise RowError(
            f"The elapsed time {text[:40]!r} is not understood.", "Export the column ElapsedRaw."
        )
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return days * 86400 + hours * 3600 + minutes * 60 + seconds


def instant(text: str, zone: tzinfo) -> str | None:
    """Return an RFC 3339 instant in UTC, None if the cell holds none.

    Raises
    ------
    RowError
        If it is neither an ISO time nor seconds since 1970.

    Examples
    --------
    >>> instant("2026-11-01T10:00:00", timezone.utc), instant("1793530800", timezone.utc)
    ('2026-11-01T10:00:00+00:00', '2026-11-01T11:00:00+00:00')
    """
    cell = text.strip()
    if cell in _ABSENT_INSTANTS:
        return None
    try:
        moment = (
            datetime.fromtimestamp(int(cell), timezone.utc)
            if cell.isdecimal()
            else datetime.fromisoformat(cell)
        )
        local = moment if moment.tzinfo else moment.replace(tzinfo=zone)
        return local.astimezone(timezone.utc).isoformat()
    except (ValueError, OverflowError, OSError):
        raise RowError(
            f"The time {cell[:40]!r} is not understood.",
            "Export with Slurm's own format: unset SLURM_TIME_FORMAT.",
        ) from None


def resources(text: str) -> dict[str, str]:
    """Return the trackable resources in a TRES cell by name.

    Examples
    --------
    >>> resources("cpu=8,gres/gpu:a100=4,mem=64G")
    {'cpu': '8', 'gres/gpu:a100': '4', 'mem': '64G'}
    """
    parts = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in parts}


def gpus_in_tres(text: str) -> tuple[int, list[str]]:
    """Return how many GPUs a TRES cell counts, and their types.

    Examples
    --------
    >>> gpus_in_tres("gres/gpu=4,gres/gpu:a100=4"), gpus_in_tres("gres/gpu=2,gres/gpumem=0")
    ((4, ['a100']), (2, []))
    """
    counted = resources(text)
    typed = {
        name.partition(":")[2]: _count(value)
        for name, value in counted.items()
        if name.startswith("gres/gpu:")
    }
    types = sorted(name for name, count in typed.items() if count)
    return max(_count(counted.get("gres/gpu", "0")), sum(typed.values())), types


def gpus_in_gres(text: str) -> tuple[int, list[str]]:
    """Return how many GPUs a GRES cell of older versions counts, and their types.

    Examples
    --------
    >>> gpus_in_gres("gpu:a100:2(IDX:0,2),nic:1"), gpus_in_gres("gres:gpu:4"), gpus_in_gres("nic:1")
    ((2, ['a100']), (4, []), (0, []))
    """
    parts = _IN_PARENTHESES.sub("", text).split(",")
    matches = [_OLD_GRES.fullmatch(part.strip()) for part in parts]
    gpus = [match for match in matches if match]
    return sum(int(match[2]) for match in gpus), sorted({match[1] for match in gpus if match[1]})


def bytes_in(text: str) -> int | None:
    """Return the bytes in a size such as 64G or 1200K; a bare number counts MiB; None for none.

    Examples
    --------
    >>> bytes_in("64G"), bytes_in("4000Mn"), bytes_in("1.5K"), bytes_in("2"), bytes_in("?")
    (68719476736, 4194304000, 1536, 2097152, None)
    """
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(float(match[1]) * 2 ** _SIZES[match[2]])


def _count(text: str) -> int:
    return int(text) if text.isdecimal() else 0
