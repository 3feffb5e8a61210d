"""The effect of spot interruptions on duration and cost, in closed form."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]

SECONDS_PER_HOUR = 3600.0
MAX_FACTOR = 10.0
"""Work that would take more than this many times its duration counts as infeasible."""


@dataclass(frozen=True, slots=True)
class Interruptions:
    """How often capacity is interrupted, and the time to recover.

    Attributes
    ----------
    per_hour
        Rate of the Poisson process of interruptions, >= 0.
    checkpoint_interval_s
        Work between two checkpoints, > 0; infinite for work without checkpoints.
    checkpoint_s
        Time to write a checkpoint, >= 0; the training waits for it.
    restart_s
        Time from an interruption until work resumes from its last checkpoint, >= 0: waiting for
        capacity, starting, loading. It is billed and not itself interrupted.
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
    """Return mean and standard deviation of the wall-clock time of works on spot capacity.

    A segment of length `s` (work up to the next checkpoint, and the checkpoint) is repeated until
    it is not interrupted. With rate `a`, the number of failures before that is geometric with mean
    `exp(a s) - 1`; each costs the time until it happens and the restart `R`, so that

        E[T] = (1 / a + R) (exp(a s) - 1)

    The segments are independent; the last one needs no checkpoint.

    Parameters
    ----------
    work_s
        Durations in seconds without any interruption, shape (n_works,), positive.
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
    full, last = _segments(work_s, terms)
    repeated = np.where(full > 0, _full_segment_s(terms), 0.0)
    repeated_mean, repeated_variance, repeated_failures = _segment(repeated, rate, terms.restart_s)
    last_mean, last_variance, last_failures = _segment(last, rate, terms.restart_s)
    return Completion(
        expected_s=full * repeated_mean + last_mean,
        standard_deviation_s=np.sqrt(full * repeated_variance + last_variance),
        interruptions=full * repeated_failures + last_failures,
    )


def _segments(work_s: FloatArray, terms: Interruptions) -> tuple[FloatArray, FloatArray]:
    """Return the number of segments that end with a checkpoint, and the work of the last one."""
    full = np.maximum(np.ceil(work_s / terms.checkpoint_interval_s) - 1.0, 0.0)
    return full, work_s - full * np.where(full > 0, terms.checkpoint_interval_s, 0.0)


def _full_segment_s(terms: Interruptions) -> float:
    """Return the length of a segment that ends with a checkpoint, in seconds."""
    return terms.checkpoint_interval_s + terms.checkpoint_s


def checkpoints_s(work_s: FloatArray, terms: Interruptions) -> FloatArray:
    """Return the time that writing checkpoints takes, in seconds, shape (n_works,)."""
    return _segments(work_s, terms)[0] * terms.checkpoint_s


def _segment(
    length_s: FloatArray, rate: float, restart_s: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return mean, variance and expected failures of one segment, each (n,)."""
    if rate == 0.0:
        zero = np.zeros_like(length_s)
        return length_s, zero, zero
    exponent = np.minimum(rate * length_s, 300.0)  # the square of exp() overflows above 354
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
    """Return the work between checkpoints that minimises the expected duration.

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
    mtbf_s = SECONDS_PER_HOUR / terms.per_hour
    cost_s = max(terms.checkpoint_s, 1.0)
    if cost_s >= 2.0 * mtbf_s:
        return mtbf_s
    ratio = math.sqrt(cost_s / (2.0 * mtbf_s))
    return math.sqrt(2.0 * cost_s * mtbf_s) * (1.0 + ratio / 3.0 + ratio**2 / 9.0) - cost_s


_LATTICE_SIZE, _LARGEST_LATTICE = 2048, 65_536
"""Points of a lattice, and of one as fine as the losses of a long work."""

_DEVIATIONS: Final = 10.0


def overhead_quantiles(
    work_s: float, terms: Interruptions, probabilities: FloatArray
) -> FloatArray:
    """Return the quantiles of the time that interruptions add to a work, without checkpoints.

    Each attempt at a segment fails with probability `q`; the lost time plus the restart is
    discretised on a lattice, with the same mean. The number of failures of a segment is geometric,
    so that the sum over all segments has the generating function `(p / (1 - q U(z))) ** n` of the
    lattice probabilities U. One Fourier transform inverts it, exactly up to the lattice.

    Parameters
    ----------
    work_s
        The duration in seconds without any interruption, positive.
    terms
        Interruptions and checkpoints.
    probabilities
        Within (0, 1), shape (n,).

    Returns
    -------
    Seconds, shape (n,); 0 up to the probability that nothing is interrupted.

    References
    ----------
    Embrechts and Frei (2009), Panjer recursion versus FFT for compound distributions, Math. Meth.
    Oper. Res. 69.

    Examples
    --------
    >>> calm = Interruptions(per_hour=0.01, checkpoint_interval_s=600.0)
    >>> overhead_quantiles(3600.0, calm, np.array([0.5, 0.9])).tolist()
    [0.0, 0.0]
    """
    if terms.per_hour == 0.0:
        return np.zeros(len(probabilities))
    rate = terms.per_hour / SECONDS_PER_HOUR
    full, last = _segments(np.array([work_s]), terms)
    moments = completion(np.array([work_s]), terms)
    longest_s = terms.restart_s + max(float(last[0]), _full_segment_s(terms) if full[0] else 0.0)
    span_s = moments.standard_deviation_s[0] * _DEVIATIONS + 4.0 * longest_s
    span_s += moments.expected_s[0] - work_s - full[0] * terms.checkpoint_s
    size = _LATTICE_SIZE
    while size < _LARGEST_LATTICE and span_s > size * longest_s:
        size *= 2
    points = np.arange(-1, size + 1, dtype=np.float64) * (float(span_s) / size)
    transform = _attempts(float(last[0]), rate, terms.restart_s, points)
    if full[0]:
        repeated = _attempts(_full_segment_s(terms), rate, terms.restart_s, points)
        transform = transform * repeated ** full[0]
    mass = np.maximum(np.fft.irfft(transform, size), 0.0)
    cumulative = np.cumsum(mass) / mass.sum()
    edges = (points[1:-1] + points[2:]) / 2.0
    quantiles: FloatArray = np.interp(probabilities, cumulative, edges)
    return np.where(probabilities <= cumulative[0], 0.0, quantiles)


def _attempts(length_s: float, rate: float, restart_s: float, points: FloatArray) -> ComplexArray:
    """Return the transform of the time lost at one segment until an attempt succeeds.

    A loss between two points of the lattice is shared between them so that its mean stays: rounded
    to the nearer one, thousands of losses shorter than the lattice is fine would add up to nothing.

    Parameters
    ----------
    points
        The lattice from 0 on, equally spaced, with one more point at each end.
    """
    working_s = points - restart_s
    failing_s = np.clip(working_s, 0.0, length_s)
    # The integral of the probability that an attempt has failed by then.
    integral = failing_s + np.expm1(-rate * failing_s) / rate
    integral += np.maximum(working_s - length_s, 0.0) * -math.expm1(-rate * length_s)
    lost = np.fft.rfft(np.diff(integral, 2) / points[2])
    return math.exp(-rate * length_s) / (1.0 - lost)
