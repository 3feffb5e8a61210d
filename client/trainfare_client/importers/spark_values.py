"""The meaning of Spark's settings and messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIZE: Final = re.compile(r"(\d{1,15})\s*(b|[kmgtp]i?b?)?", re.ASCII | re.IGNORECASE)
_SHIFTS: Final = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
_OUTCOMES: Final = (
    (
        "out_of_memory",
        re.compile(
            r"OutOfMemoryError|OOMKilled|exceeding.{0,20}memory limits|out of memory|OutOfMemory"
            # 52 is an exit code of Spark: no memory.
            r"|exit(?:ed with)? (?:code|status):? ?(?:137|52)\b",
            re.IGNORECASE,
        ),
    ),
    ("preempted", re.compile(r"preempt|spot interruption", re.IGNORECASE)),
    ("cancelled", re.compile(r"\bcancell?ed\b|was shut down", re.IGNORECASE)),
)
_SIGNALS: Final = {130: "cancelled", 143: "preempted"}
_DEFAULT_MEMORY: Final = "1g"
_DEFAULT_PARTITIONS: Final = 200


def bytes_of(size: str) -> int | None:
    """Return the bytes in a size such as 4g; a bare number is in MiB, as in Spark's settings.

    Examples
    --------
    >>> bytes_of("4g"), bytes_of("512"), bytes_of("512b"), bytes_of("lots")
    (4294967296, 536870912, 512, None)
    """
    match = _SIZE.fullmatch(size.strip())
    return None if match is None else int(match[1]) << _SHIFTS[(match[2] or "m")[0].lower()]


def executor_memory_bytes(conf: Mapping[str, str]) -> int | None:
    """Return an executor's heap; in a local run the driver's, which is the executor."""
    # local-cluster[...], Spark's own simulation of a cluster, has executors.
    is_local = conf.get("spark.master", "").partition("[")[0] == "local"
    name = "spark.driver.memory" if is_local else "spark.executor.memory"
    return bytes_of(conf.get(name, _DEFAULT_MEMORY))


def shuffle_partitions(conf: Mapping[str, str]) -> int | None:
    """Return the number of partitions that SQL shuffles into."""
    return count_of(conf.get("spark.sql.shuffle.partitions", str(_DEFAULT_PARTITIONS)))


def count_of(value: str) -> int | None:
    """Return the whole number in a setting; None if it is not one."""
    return int(value) if value.strip().isdecimal() and len(value) < 10 else None  # noqa: PLR2004 - a billion


def outcome(failure: str | None, *, exit_code: int, has_ended: bool, is_running: bool) -> str:
    """Return how an application ended.

    Parameters
    ----------
    failure
        Why its last job failed; None if it did not.
    exit_code
        The application's own exit code; 0 also if it stated none.
    has_ended
        Whether the log has an end. Without one the driver was killed, or still runs: what is known
        is a lower bound, as for a cancelled run.
    is_running
        Whether a job had not ended.

    Examples
    --------
    >>> outcome("java.lang.OutOfMemoryError", exit_code=1, has_ended=True, is_running=False)
    'out_of_memory'
    >>> outcome(None, exit_code=0, has_ended=False, is_running=True)
    'cancelled'
    """
    if failure is not None:
        statuses = (name for name, pattern in _OUTCOMES if pattern.search(failure))
        return next(statuses, "failed")
    if exit_code:
        return _SIGNALS.get(exit_code, "failed")
    return "succeeded" if has_ended and not is_running else "cancelled"
