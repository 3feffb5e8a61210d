"""How many GPUs jobs need hour by hour: a queue simulated with drawn durations."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from app.decisions.durations import FloatArray
from app.decisions.progress import RemainingBeliefs

IntArray = npt.NDArray[np.int64]
DRAWS: Final = 256
_MIN_DRAWS: Final = 32
_MAX_OPERATIONS: Final = 200_000_000


@dataclass(frozen=True, slots=True)
class Demand:
    """GPUs in use of one kind of capacity, hour by hour; arrays of shape (n_hours,).

    `expected` is the mean over the hour; `lower` and `upper` bound the peak within it.
    """

    expected: FloatArray
    lower: FloatArray
    upper: FloatArray


def draws_for(n_jobs: int, capacity: int) -> int:
    """Return the number of draws to simulate a queue with, fewer for very large queues.

    Examples
    --------
    >>> draws_for(300, 512), draws_for(2000, 4096)
    (256, 32)
    """
    return int(np.clip(_MAX_OPERATIONS // max(n_jobs * capacity, 1), _MIN_DRAWS, DRAWS))


def draw_durations(
    remaining: RemainingBeliefs,
    sources: IntArray,
    noise_shares: FloatArray,
    seed: int,
    draws: int,
) -> FloatArray:
    """Return durations drawn from beliefs, shape (draws, n_jobs).

    Each job has a stratified sample: the quantiles in the middle of `draws` equal shares. Their
    order is that of a normal variable, of which all jobs of a source share one part: what a
    regressor does not know makes all of its forecasts too long or too short at once. The values of
    a job's sample do not depend on the seed.

    Parameters
    ----------
    remaining
        The beliefs of n jobs.
    sources
        From which regressor each comes, numbered from 0, shape (n,).
    noise_shares
        The share of each variance that is the job's own, shape (n,).
    seed, draws
        Of the random numbers, and how many samples.

    References
    ----------
    Iman and Conover (1982), A distribution-free approach to inducing rank correlation among input
    variables, Communications in Statistics B 11(3).
    """
    rng = np.random.default_rng(seed)
    probabilities = (np.arange(draws) + 0.5) / draws
    n = len(remaining.total)
    if not n:
        return np.empty((draws, 0))
    quantiles = np.array([remaining.quantile(float(probability)) for probability in probabilities])
    common = rng.standard_normal((draws, sources.max() + 1))[:, sources]
    own = rng.standard_normal((draws, n))
    ranked = np.sqrt(1.0 - noise_shares) * common + np.sqrt(noise_shares) * own
    return np.take_along_axis(quantiles, ranked.argsort(axis=0).argsort(axis=0), axis=0)


def simulate_queue(
    durations: FloatArray, gpus: IntArray, n_running: int, capacity: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return when jobs start and end, first come first served without overtaking.

    The first jobs run already: they hold their GPUs even if these are more than the capacity.
    Then the GPUs that become free first, up to the excess, go to nobody.

    Parameters
    ----------
    durations
        Seconds, shape (draws, n_jobs), jobs in the order of service.
    gpus
        GPUs of each job, shape (n_jobs,); at most `capacity` of each that does not run.
    n_running
        How many jobs run.
    capacity
        The number of GPUs; None: as many as are needed.

    Returns
    -------
    Starts and ends in seconds from now, each of shape (draws, n_jobs).

    Examples
    --------
    >>> starts, ends = simulate_queue(np.array([[10.0, 5.0]]), np.array([2, 1]), 1, 2)
    >>> starts.tolist(), ends.tolist()
    ([[0.0, 10.0]], [[10.0, 15.0]])
    """
    starts = np.zeros_like(durations)
    if capacity is None:
        return starts, starts + durations
    # When each GPU becomes free, sorted; a job takes those that become free first.
    free_at = np.zeros((len(durations), capacity))
    last_start = np.zeros(len(durations))
    for job, n_gpus in enumerate(gpus.tolist()):
        taken = free_at[:, :n_gpus]
        if job >= n_running:
            last_start = starts[:, job] = np.maximum(taken[:, -1], last_start)
        np.maximum(taken, (starts[:, job] + durations[:, job])[:, None], out=taken)
        free_at.sort(axis=1, kind="stable")
    return starts, starts + durations


def demand(
    starts: FloatArray, ends: FloatArray, gpus: IntArray, hours: int, confidence: float
) -> Demand:
    """Return the GPUs in use hour by hour.

    Parameters
    ----------
    starts, ends
        Seconds from now, shape (draws, n_jobs).
    gpus
        GPUs of each job, shape (n_jobs,).
    hours
        How far to look.
    confidence
        Of the bounds of the peak, in (0, 1).
    """
    peak = _peaks(starts, ends, gpus, hours)
    tail = (1.0 - confidence) / 2.0
    return Demand(
        expected=_mean_use(starts, ends, gpus, hours),
        lower=np.quantile(peak, tail, axis=0, method="lower"),
        upper=np.quantile(peak, 1.0 - tail, axis=0, method="higher"),
    )


def _peaks(starts: FloatArray, ends: FloatArray, gpus: IntArray, hours: int) -> FloatArray:
    """Return the most GPUs in use at once within each hour of each draw, shape (draws, hours)."""
    hour_starts = 3600.0 * np.arange(hours)
    peak = np.zeros((len(starts), hours))
    for job, n_gpus in enumerate(gpus.tolist()):
        is_running = (starts[:, [job]] <= hour_starts) & (hour_starts < ends[:, [job]])
        peak += n_gpus * is_running
    # Ends come before starts, so that GPUs handed over at an instant count once.
    instants = np.concatenate([ends, starts], axis=1)
    order = np.argsort(instants, axis=1, kind="stable")
    in_use = np.cumsum(np.concatenate([-gpus, gpus])[order], axis=1)
    hour = np.floor(np.take_along_axis(instants, order, axis=1) / 3600.0)
    rows, columns = np.nonzero(hour < hours)
    cells = (rows, hour[rows, columns].astype(np.int64))
    np.maximum.at(peak, cells, in_use[rows, columns])
    return peak


def _mean_use(starts: FloatArray, ends: FloatArray, gpus: IntArray, hours: int) -> FloatArray:
    """Return the exact mean over each hour and all draws."""
    used = np.empty(hours)
    for hour in range(hours):
        begin, end = 3600.0 * hour, 3600.0 * (hour + 1)
        overlap = np.clip(np.minimum(ends, end) - np.maximum(starts, begin), 0.0, None)
        used[hour] = float((overlap * gpus).sum(axis=1).mean()) / 3600.0
    return used
