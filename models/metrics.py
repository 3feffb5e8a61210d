"""How good forecasts are: errors of medians, coverage and width of intervals."""

import numpy as np

from models.tables import FloatArray


def mape(observed_s: FloatArray, predicted_s: FloatArray) -> float:
    """Return the mean absolute percentage error as a fraction.

    Parameters
    ----------
    observed_s, predicted_s
        Durations in seconds, shape (n_runs,); observed ones are positive.

    Raises
    ------
    ValueError
        If the shapes differ, are empty, or an observed duration is not positive.

    References
    ----------
    Hyndman and Koehler (2006), Int. J. Forecasting 22(4), 679-688.

    Examples
    --------
    >>> round(mape(np.array([100.0, 200.0]), np.array([110.0, 180.0])), 3)
    0.1
    """
    return float(_relative_errors(observed_s, predicted_s).mean())


def share_above(observed_s: FloatArray, predicted_s: FloatArray, limit: float = 0.2) -> float:
    """Return the share of forecasts whose relative error is above `limit`.

    Raises
    ------
    ValueError
        As `mape` does.

    Examples
    --------
    >>> share_above(np.array([100.0, 200.0]), np.array([130.0, 180.0]))
    0.5
    """
    return float((_relative_errors(observed_s, predicted_s) > limit).mean())


def coverage(observed_s: FloatArray, lower_s: FloatArray, upper_s: FloatArray) -> float:
    """Return the share of runs inside their prediction interval, bounds included.

    Raises
    ------
    ValueError
        If the shapes differ or are empty.

    Examples
    --------
    >>> coverage(np.array([1.0, 5.0]), np.array([0.5, 1.0]), np.array([1.0, 4.0]))
    0.5
    """
    _check_shapes(observed_s, lower_s, upper_s)
    return float(((lower_s <= observed_s) & (observed_s <= upper_s)).mean())


def relative_width(predicted_s: FloatArray, lower_s: FloatArray, upper_s: FloatArray) -> float:
    """Return the median of (upper - lower) / forecast, a fraction.

    Raises
    ------
    ValueError
        If the shapes differ or are empty.

    Examples
    --------
    >>> relative_width(np.array([10.0]), np.array([8.0]), np.array([13.0]))
    0.5
    """
    _check_shapes(predicted_s, lower_s, upper_s)
    return float(np.median((upper_s - lower_s) / predicted_s))


def log_interval_score(
    observed_s: FloatArray, lower_s: FloatArray, upper_s: FloatArray, confidence: float
) -> float:
    """Return the mean interval score of log durations; smaller is better.

    ``(u - l) + 2 / a max(l - y, 0) + 2 / a max(y - u, 0)`` with ``a = 1 - confidence`` and all in
    logarithms: width, plus a penalty for each run outside.

    Raises
    ------
    ValueError
        If the shapes differ or are empty, a duration is not positive, or the confidence is not
        within (0, 1).

    References
    ----------
    Gneiting and Raftery (2007), Strictly proper scoring rules, JASA 102(477). Winkler (1972), JASA
    67(337).

    Examples
    --------
    >>> bounds = np.exp([1.0]), np.exp([2.0])
    >>> round(log_interval_score(np.exp([2.5]), *bounds, 0.9), 6)
    11.0
    """
    _check_shapes(observed_s, lower_s, upper_s)
    if not 0 < confidence < 1:
        raise ValueError(f"A confidence lies between 0 and 1, not at {confidence}.")
    if min(observed_s.min(), lower_s.min(), upper_s.min()) <= 0:
        raise ValueError("Durations are positive.")
    y, low, high = np.log(observed_s), np.log(lower_s), np.log(upper_s)
    outside = np.maximum(low - y, 0) + np.maximum(y - high, 0)
    return float((high - low + 2 / (1 - confidence) * outside).mean())


def _relative_errors(observed_s: FloatArray, predicted_s: FloatArray) -> FloatArray:
    _check_shapes(observed_s, predicted_s)
    if (observed_s <= 0).any():
        raise ValueError("Observed durations are positive.")
    return np.abs(predicted_s - observed_s) / observed_s


def _check_shapes(first: FloatArray, *others: FloatArray) -> None:
    if not len(first) or any(other.shape != first.shape for other in others):
        raise ValueError("Arrays must have one common shape and at least one row.")
