"""How much a project may store and ask for."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_COUNT: Final = (1 << 31) - 1
"""The highest value of all limits except that of runs, the largest that both databases store."""
MAX_RUNS: Final = (1 << 63) - 1


class Limit(StrEnum):
    """The names of a project's limits, which are the members of `Quota`."""

    RUNS = "runs"
    WORKLOADS = "workloads"
    FITS_PER_DAY = "fits_per_day"
    QUEUED_FITS = "queued_fits"
    REQUESTS_PER_MINUTE = "requests_per_minute"


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of a project; None is no limit.

    `fits_per_day` counts the fits that the project requested in the last 24 hours, `queued_fits`
    those that wait, `requests_per_minute` the requests of all its keys to all replicas.
    """

    runs: int | None = None
    workloads: int | None = None
    fits_per_day: int | None = None
    queued_fits: int | None = None
    requests_per_minute: int | None = None
