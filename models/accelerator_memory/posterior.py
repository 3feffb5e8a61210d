"""Draws from a posterior of any shape with a standard normal prior, and a representative few."""

import numpy as np

from models.numerics.optimisation import minimise_in_box
from models.numerics.slice_sampling import LogDensity, slice_sample
from models.tables import FloatArray, IntArray

N_PARTICLES = 512
"""Least number of draws; below, the least number per coordinate."""
_PER_COORDINATE = 4

_OVERSAMPLING = 4
"""Initial draws per particle: half from the prior, half from around the mode."""

_MAX_DISTANCE, _MAX_ITERATIONS = 8.0, 200
"""Search for the mode: greatest distance from the prior's mean in deviations, and iterations."""

_SLOPE_STEP, _CURVATURE_STEP = 1e-6, 1e-3
"""Steps of the finite differences for slopes and curvatures."""

_TOLERANCE, _DECIMALS = 1e-14, 3
"""Tolerance of the search for the mode, and decimals to which mode and curvature are rounded.

A draw that is accepted on one processor and refused on another changes all later draws. Processors
differ in the last digits only, but the search and the finite differences magnify them; rounded, the
draws start from the same mixture everywhere."""

_MIN_CURVATURE, _INFLATION = 0.5, 1.5
"""A posterior is hardly wider than its prior, of curvature 1; variances are inflated by half."""

_MIN_RISE, _BISECTIONS = 0.02, 30
"""Least rise of the tempering exponent, and bisections to find the rise."""

_SWEEPS_BETWEEN, _SWEEPS_AT_LAST = 2, 6
"""Sweeps of slice sampling at each tempering exponent, and at the last one."""


def sample_posterior(log_density: LogDensity, size: int, seed: int) -> FloatArray:
    """Return draws of a posterior, the same for the same seed, at least `N_PARTICLES`.

    Sequential Monte Carlo from a mixture to the posterior. The mixture consists of the prior and a
    normal distribution at the mode with the curvature there, its variance inflated by half. Each
    step raises the tempering exponent as far as the effective sample size stays at half of the
    particles, resamples, and moves the particles by slice sampling. The prior in the mixture bounds
    the weights and finds modes that the optimiser misses.

    Parameters
    ----------
    log_density
        Log posterior up to a constant at points of shape (n, size), in coordinates whose prior is
        standard normal; finite everywhere.
    size
        Number of coordinates.
    seed
        Seed of the draws.

    References
    ----------
    Del Moral, Doucet and Jasra (2006), Sequential Monte Carlo samplers, J. R. Stat. Soc. B 68(3).
    Kitagawa (1996), Monte Carlo filter and smoother, J. Comput. Graph. Stat. 5(1): systematic
    resampling.

    Examples
    --------
    Two modes, the first with a third of the probability.

    >>> def log_density(z):
    ...     modes = [-50 * ((z - mu) ** 2).sum(1) + np.log(p) for mu, p in ((-1, 1), (1.5, 2))]
    ...     return np.logaddexp(*modes)
    >>> draws = sample_posterior(log_density, 2, seed=0)
    >>> share = (draws[:, 0] < 0).mean()
    >>> bool(0.28 < share < 0.38), draws[draws[:, 0] < 0].std(axis=0).round(2).tolist()
    (True, [0.1, 0.1])
    """
    rng = np.random.default_rng(seed)
    n = max(N_PARTICLES, _PER_COORDINATE * size)
    mixture = _Mixture(log_density, size)
    draws = mixture.draw(_OVERSAMPLING * n, rng)
    log_target, log_proposal = log_density(draws), mixture.log_density(draws)
    exponent = 0.0
    while exponent < 1:
        log_ratio = log_target - log_proposal
        raised = _next_exponent(log_ratio, exponent, n / 2)
        ancestors = _resample((raised - exponent) * log_ratio, n, rng)
        draws, exponent = draws[ancestors], raised
        if exponent < 1:
            tempered = _tempered(mixture.log_density, log_density, exponent)
            draws = slice_sample(tempered, draws, rng, n_sweeps=_SWEEPS_BETWEEN)
            log_target, log_proposal = log_density(draws), mixture.log_density(draws)
    return slice_sample(log_density, draws, rng, n_sweeps=_SWEEPS_AT_LAST)


def stratified_choice(quantities: FloatArray, n: int, seed: int) -> IntArray:
    """Return `n` draws that represent all of them, one at random from each of n cells.

    Cells are halved repeatedly at the median of the quantity that varies most within them. The mean
    of any monotone function of it then varies far less than over `n` random draws.

    Parameters
    ----------
    quantities
        Quantities of interest by draw, shape (n_draws, n_quantities).
    n
        How many to choose, a power of two no greater than the number of draws.
    seed
        Seed of the choice within each cell.

    References
    ----------
    Cochran (1977), Sampling techniques, 3rd edition, section 5.6: stratified sampling. Bentley
    (1975), Multidimensional binary search trees, CACM 18(9).

    Examples
    --------
    >>> quantities = np.random.default_rng(0).normal(3, 1, (512, 1))
    >>> chosen = quantities[stratified_choice(quantities, 64, seed=0)]
    >>> abs(chosen.mean() - quantities.mean()) < 0.03
    np.True_
    """
    rng = np.random.default_rng(seed)
    cells: list[IntArray] = [np.arange(len(quantities), dtype=np.int64)]
    while len(cells) < n:
        cells = [half for cell in cells for half in _halves(quantities, cell)]
    uniforms = rng.random(len(cells))
    chosen = [cell[int(u * len(cell))] for cell, u in zip(cells, uniforms, strict=True)]
    return np.array(chosen, dtype=np.int64)


def _halves(quantities: FloatArray, cell: IntArray) -> tuple[IntArray, IntArray]:
    widest = int(quantities[cell].var(axis=0).argmax())
    order = cell[np.argsort(quantities[cell, widest], kind="stable")]
    return order[: len(order) // 2], order[len(order) // 2 :]


class _Mixture:
    """A mixture in equal parts: the prior, and a normal distribution at the mode."""

    def __init__(self, log_density: LogDensity, size: int) -> None:
        self._mode = _mode(log_density, size)
        self._root = _covariance_root(log_density, self._mode)
        self._inverse = np.linalg.inv(self._root)
        self._log_volume = float(np.linalg.slogdet(self._root)[1])

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        draws = rng.standard_normal((n, len(self._mode)))
        draws[::2] = self._mode + draws[::2] @ self._root.T
        return draws

    def log_density(self, points: FloatArray) -> FloatArray:
        whitened = (points - self._mode) @ self._inverse.T
        log_normal = -0.5 * (whitened**2).sum(axis=1) - self._log_volume
        log_mixture: FloatArray = np.logaddexp(log_normal, -0.5 * (points**2).sum(axis=1))
        return log_mixture


def _tempered(start: LogDensity, end: LogDensity, exponent: float) -> LogDensity:
    return lambda points: (1 - exponent) * start(points) + exponent * end(points)


def _next_exponent(log_ratio: FloatArray, exponent: float, target: float) -> float:
    """Return the highest tempering exponent with an effective sample size of at least `target`."""

    def effective_size(raised: float) -> float:
        log_weights = (raised - exponent) * log_ratio
        weights = np.exp(log_weights - log_weights.max())
        return float(weights.sum() ** 2 / (weights**2).sum())

    if effective_size(1.0) >= target:
        return 1.0
    low, high = exponent, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if effective_size(middle) >= target else (low, middle)
    return min(1.0, max(low, exponent + _MIN_RISE))


def _resample(log_weights: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    weights = np.exp(log_weights - log_weights.max())
    cumulative = np.cumsum(weights) / weights.sum()
    indices = np.searchsorted(cumulative, (np.arange(n) + rng.random()) / n)
    return np.minimum(indices, len(weights) - 1)


def _mode(log_density: LogDensity, size: int) -> FloatArray:
    steps = _SLOPE_STEP * np.eye(size)

    def loss(point: FloatArray) -> tuple[float, FloatArray]:
        values = log_density(np.concatenate([point[None], point + steps, point - steps]))
        slopes = (values[1 : size + 1] - values[size + 1 :]) / (2 * _SLOPE_STEP)
        return -float(values[0]), -slopes

    bounds = [(-_MAX_DISTANCE, _MAX_DISTANCE)] * size
    start = np.zeros(size)
    mode = minimise_in_box(loss, start, bounds, _MAX_ITERATIONS, tolerance=_TOLERANCE)
    return mode.round(_DECIMALS)


def _covariance_root(log_density: LogDensity, mode: FloatArray) -> FloatArray:
    """Return the symmetric square root of the inflated covariance that the curvature implies."""
    size, steps = len(mode), _CURVATURE_STEP * np.eye(len(mode))
    row, column = np.tril_indices(size, -1)
    corners = mode + steps[row] + steps[column]
    log_densities = log_density(np.concatenate([mode[None], mode + steps, mode - steps, corners]))
    center, plus, minus, cross = np.split(log_densities, [1, size + 1, 2 * size + 1])
    hessian = np.diag(plus - 2 * center + minus)
    hessian[row, column] = hessian[column, row] = cross - plus[row] - plus[column] + center
    curvature = (-hessian / _CURVATURE_STEP**2).round(_DECIMALS)
    eigenvalues, eigenvectors = np.linalg.eigh(curvature)
    scales = np.sqrt(_INFLATION / np.maximum(eigenvalues, _MIN_CURVATURE))
    # Unlike this product, the sign of an eigenvector depends on the library.
    return np.asarray(eigenvectors * scales @ eigenvectors.T, dtype=np.float64)
