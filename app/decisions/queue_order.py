"""The order in which a queue is served: keys that rise from the first job to the last."""

import numpy as np
import numpy.typing as npt

from app.decisions.durations import FloatArray

IntArray = npt.NDArray[np.int64]
IndexArray = npt.NDArray[np.intp]


def aged_service(service: FloatArray, waited_s: FloatArray, ageing_s: float | None) -> FloatArray:
    """Return the service that each job counts as after waiting, shape (n_jobs,).

    ``service / (1 + waited / ageing)``: a job that has waited `ageing_s` counts as half as long.
    After a bounded time it passes every newcomer of a given service, so that no job starves; the
    order stays shortest-first as long as waiting times are short compared with `ageing_s`.

    Parameters
    ----------
    service
        Expected GPU-seconds, shape (n_jobs,).
    waited_s
        Seconds since each job was submitted, not negative, shape (n_jobs,).
    ageing_s
        None: waiting does not count.

    References
    ----------
    Hu, Sun, Yan, Wen, Zhang (2021), Characterization and prediction of deep learning workloads in
    large-scale GPU datacenters, SC'21 (quasi-shortest-service-first). Brinch Hansen (1971), Short-
    term scheduling in multiprogramming systems (response ratio).

    Examples
    --------
    >>> aged_service(np.array([100.0, 100.0]), np.array([0.0, 60.0]), 60.0).tolist()
    [100.0, 50.0]
    """
    # As a share: waited_s / ageing_s may be too large for a number.
    return service if ageing_s is None else service * (ageing_s / (ageing_s + waited_s))


def deadline_keys(
    slack_s: FloatArray, hopeless: npt.NDArray[np.bool_]
) -> tuple[FloatArray, FloatArray]:
    """Return keys of jobs with deadlines: least slack first, hopeless jobs after them.

    Parameters
    ----------
    slack_s
        Seconds until the latest start that keeps the deadline with confidence, shape (n_jobs,);
        infinite without a deadline.
    hopeless
        Jobs that would miss their deadline if they started now: serving them first would only
        make others miss theirs.

    Returns
    -------
    The group of each job (0 to be saved, 1 hopeless, 2 without deadline), and within it the slack.

    References
    ----------
    Mok (1983), Fundamental design problems of distributed systems for the hard real-time
    environment (least laxity first).
    """
    is_free = np.isinf(slack_s)
    group = np.where(is_free, 2.0, np.where(hopeless, 1.0, 0.0))
    return group, np.where(is_free, 0.0, slack_s)


def order(keys: tuple[FloatArray, ...], submitted: FloatArray) -> tuple[IndexArray, IntArray]:
    """Return the jobs in order and the priority of each.

    Parameters
    ----------
    keys
        Sort keys, the most important first, each of shape (n_jobs,); small values go first.
    submitted
        Breaks ties, then the position in the request does; shape (n_jobs,).

    Returns
    -------
    The positions of the jobs in order and, by job, a priority from the number of distinct keys
    (served first) down to 1; jobs with equal keys share one.

    Examples
    --------
    >>> places, priority = order((np.array([5.0, 1.0, 5.0]),), np.array([9.0, 9.0, 3.0]))
    >>> places.tolist(), priority.tolist()
    ([1, 2, 0], [1, 2, 1])
    """
    rounded = tuple(_significant(key) for key in keys)
    n = len(submitted)
    places = np.lexsort((np.arange(n), submitted, *reversed(rounded)))
    changes = np.zeros(n, dtype=np.bool_)
    for key in rounded:
        changes[1:] |= key[places][1:] != key[places][:-1]
    level = np.cumsum(changes)
    priority = np.empty(n, dtype=np.int64)
    priority[places] = (level[-1] if n else 0) - level + 1
    return places, priority


def _significant(key: FloatArray) -> FloatArray:
    """Return a key to nine significant digits, so that rounding errors decide nothing."""
    with np.errstate(divide="ignore"):
        magnitude = np.where(key == 0, 0.0, np.floor(np.log10(np.abs(key))))
    unit = 10.0 ** (magnitude - 8.0)
    return np.where(np.isfinite(key), np.round(key / unit) * unit, key)
