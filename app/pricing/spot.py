"""What interruptions of spot capacity do to duration and cost, in closed form."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

SECONDS_PER_HOUR = 3600.0
MAX_FACTOR = 10.0
"""Work that would take longer than this many times its duration counts as impossible."""


@dataclass(frozen=True, slots=True)
class Interruptions:
    """How often capacity is taken away and what it costs to come back.

    Attributes
    ----------
    per_hour
        Rate of the Poisson process of interruptions, >= 0.
    checkpoint_interval_s
        Work between two checkpoints, > 0; infinite for work without checkpoints.
    checkpoint_s
        Time to write a checkpoint, >= 0; the training waits for it.
    restart_s
        Time from an interruption until the work goes on from its last checkpoint, >= 0:
        waiting for capacity, starting, loading. It is billed and not interrupted itself.
    """

    per_hour: float = 0.05
    checkpoint_interval_s: float = 1800.0
    checkpoint_s: float = 30.0
    restart_s: float = 300.0


@dataclass(frozen=True, slots=True)
class Completion:
    """Moments of the time to completion of each work, shape (n_works,)."""

    expected_s: FloatArray
    standard_deviation_s: FloatArray
    interruptions: FloatArray


def completion(work_s: FloatArray, terms: Interruptions) -> Completion:
    """Return mean and standard deviation of the wall-clock time that works take on spot capacity.

    A segment of length `s` (work up to the next checkpoint, and the checkpoint) is repeated
    until it is not interrupted. With rate `a` the failures before are geometric with mean
    `exp(a s) - 1`, each costs the time until it happens and the restart `R`, so that

        E[T] = (1 / a + R) (exp(a s) - 1)

    The segments are independent; the last one needs no checkpoint.

    Parameters
    ----------
    work_s
        Durations without any interruption in seconds, shape (n_works,), positive.
    terms
        Interruptions and checkpoints.

    References
    ----------
    Daly (2006), A higher order estimate of the optimum checkpoint interval, FGCS 22(3).

    Examples
    --------
    >>> moments = completion(np.array([3600.0]), Interruptions(per_hour=0.0, checkpoint_s=60.0))
    >>> moments.expected_s.tolist(), moments.standard_deviation_s.tolist()
    ([3660.0], [0.0])
    """
    rate = terms.per_hour / SECONDS_PER_HOUR
    full = np.maximum(np.ceil(work_s / terms.checkpoint_interval_s) - 1.0, 0.0)
    last = work_s - full * np.where(full > 0, terms.checkpoint_interval_s, 0.0)
    step = terms.checkpoint_interval_s + terms.checkpoint_s
    repeated = np.where(full > 0, step, 0.0)
    repeated_mean, repeated_variance, repeated_failures = _segment(repeated, rate, terms.restart_s)
    last_mean, last_variance, last_failures = _segment(last, rate, terms.restart_s)
    return Completion(
        expected_s=full * repeated_mean + last_mean,
        standard_deviation_s=np.sqrt(full * repeated_variance + last_variance),
        interruptions=full * repeated_failures + last_failures,
    )


def _segment(
    length_s: FloatArray, rate: float, restart_s: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, variance and expected failures of one segment, each (n,)."""
    if rate == 0.0:
        zero = np.zeros_like(length_s)
        return length_s, zero, zero
    exponent = np.minimum(rate * length_s, 700.0)  # exp() overflows above 709
    failures = np.expm1(exponent)
    # Time until a failure, given that it comes within the segment (truncated exponential).
    share = np.divide(exponent, failures, out=np.ones_like(exponent), where=failures > 0)
    until_mean = (1.0 - share) / rate
    until_variance = np.maximum((1.0 - share * share * (failures + 1.0)) / rate**2, 0.0)
    lost = until_mean + restart_s
    mean = length_s + failures * lost
    variance = failures * until_variance + failures * (failures + 1.0) * lost**2
    return mean, variance, failures


def optimal_checkpoint_interval_s(terms: Interruptions) -> float:
    """Return the work between checkpoints that makes the expected duration shortest.

    References
    ----------
    Young (1974), CACM 17(9), first order; Daly (2006), eq. 37, higher order.

    Examples
    --------
    >>> round(optimal_checkpoint_interval_s(Interruptions(per_hour=1.0, checkpoint_s=2.0)))
    119
    """
    if terms.per_hour == 0.0:
        return math.inf
    between_s = SECONDS_PER_HOUR / terms.per_hour
    cost_s = max(terms.checkpoint_s, 1.0)
    if cost_s >= 2.0 * between_s:
        return between_s
    ratio = math.sqrt(cost_s / (2.0 * between_s))
    return math.sqrt(2.0 * cost_s * between_s) * (1.0 + ratio / 3.0 + ratio**2 / 9.0) - cost_s
