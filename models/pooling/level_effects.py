"""Effects of category levels across workloads: what a GPU type does, and how certainly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.features.hardware import (
    SPECIFICATION_EXPONENTS,
    UNKNOWN_SD,
    HardwareDescription,
    specification_vector,
)
from models.numerics.optimisation import minimise_in_box
from models.pooling.summaries import LevelEvidence
from models.tables import FloatArray, IntArray

MAX_POOLED_ROWS, MAX_POOLED_LEVELS = 2_000, 400
"""Limits of (workload, level) pairs and of distinct levels; further workloads are left out.

The cost grows with the number of pairs and with the cube of the number of levels."""

_WORKLOAD_SD = 5.0
"""Standard deviation of a workload's common effect: so wide that only differences count."""

_SLOPE_SD = 0.25
"""Prior standard deviation of the exponents of specifications."""

_REFERENCE: FloatArray = np.log([200.0, 17.0, 1200.0])
"""Log specifications of a typical accelerator, relative to which effects are given."""

_N_SPECIFICATIONS = 3

_TYPICAL_GPU: FloatArray = np.log([0.3, 0.2, 0.1, 0.3])
_TYPICAL_OTHER: FloatArray = np.log([0.15, 0.15, 0.1, 0.3])
"""Log prior medians of the deviations of e, d, u_w and z_w, for GPU types and other categories."""

_HYPER_SD = 0.7
"""Prior standard deviation of these logs: a factor of two."""

_SPECIFICATION_SDS = 0.15, 0.12, 0.1
"""Deviations of e, d and u_w of GPU types that are known by data sheets alone, not by workloads."""

_MAX_STEPS, _STEP = 15, 1e-4
"""Number of steps of the optimiser, and step of the finite differences for its gradient."""


@dataclass(frozen=True, slots=True, eq=False)
class LevelEffects:
    """Posterior of the effects of a category's levels, shared by all workloads.

    The effect of level c on workload w is ``(1 + z_w) (e_c + u . x_c) + u_w . x_c + d_wc``, with x
    the log specifications of a GPU type and z_w how much more strongly than others w responds.

    Parameters
    ----------
    category
        The column.
    levels
        The levels that workloads of the pool were measured on.
    mean, covariance
        Joint posterior of the levels' own effects e and of the slopes u, shape (n_levels + 3,).
    sds
        Standard deviations of e, of d and of u_w.
    response
        Standard deviation of z_w.
    """

    category: str
    levels: tuple[str, ...]
    mean: FloatArray
    covariance: FloatArray
    sds: tuple[float, float, float]
    response: float = 0.0

    def at_response(self, location: float, sd: float) -> "LevelEffects":
        """Return the effects on a workload whose response is ``z_w ~ N(location, sd^2)``.

        Examples
        --------
        >>> effects = replace(specification_effects("gpu_type"), response=0.3).at_response(0.2, 0.1)
        >>> effects.mean.round(2).tolist(), effects.response
        ([-0.3, -0.12, -0.6], 0.0)
        """
        covariance = self.covariance + sd**2 * np.outer(self.mean, self.mean)
        return replace(self, mean=(1 + location) * self.mean, covariance=covariance, response=0.0)

    def joint(
        self, names: Sequence[str | None], hardware: Mapping[str, HardwareDescription]
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the named levels' effects on a new workload.

        They are given up to a constant common to all levels. A level that is unknown to the pool
        and has no specification is as uncertain as one about which nothing is known.
        """
        own, deviation, slope = self.sds
        design = self._design(names, hardware)
        x = design[:, len(self.levels) :]
        variance = np.full(len(names), deviation**2)
        for row, name in enumerate(names):
            if name in self.levels:
                continue
            is_described = _is_described(self.category, name, hardware)
            variance[row] += (own if is_described else max(own, UNKNOWN_SD)) ** 2
        covariance = design @ self.covariance @ design.T + slope**2 * (x @ x.T) + np.diag(variance)
        mean = design @ self.mean
        covariance += self.response**2 * np.outer(mean, mean)
        return mean, (covariance + covariance.T) / 2

    def differences(
        self, names: Sequence[str | None], hardware: Mapping[str, HardwareDescription]
    ) -> FloatArray:
        """Return the expected effect of the last level minus that of each other, shape (n - 1,).

        A difference between two levels that the pool measured is set to 0 where it is smaller than
        its own posterior standard deviation: boards that hardly differ keep their forecasts.

        References
        ----------
        Judge and Bock (1978), The statistical implications of pre-test and Stein-rule estimators in
        econometrics, ch. 3.

        Examples
        --------
        >>> mean, covariance = np.array([0.5, 0.4, 0.375, 0, 0, 0]), np.eye(6) / 1000
        >>> effects = LevelEffects("color", ("a", "b", "c"), mean, covariance, (0.1, 0.1, 0.1))
        >>> effects.differences(["a", "b", "c"], {}).tolist()
        [-0.125, 0.0]
        """
        design = self._design(names, hardware)
        contrasts = design[-1] - design[:-1]
        means = contrasts @ self.mean
        is_measured = np.array([name in self.levels for name in names], dtype=np.bool_)
        is_insignificant = means**2 < np.vecdot(contrasts @ self.covariance, contrasts)
        return np.where(is_measured[:-1] & is_measured[-1] & is_insignificant, 0.0, means)

    def _design(
        self, names: Sequence[str | None], hardware: Mapping[str, HardwareDescription]
    ) -> FloatArray:
        """Return the coefficients of e and u for each named level, shape (n, n_levels + 3)."""
        x = _specifications(self.category, names, hardware)
        is_known = np.array([self.is_known(name, hardware) for name in names], dtype=np.bool_)
        if is_known.any():
            # For a level of which nothing is known, the mean of the others is the best guess.
            x[~is_known] = x[is_known].mean(axis=0)
        indicators = np.array(
            [[name == level for level in self.levels] for name in names], dtype=float
        )
        return np.hstack([indicators.reshape(len(names), -1), x])

    def is_known(self, name: str | None, hardware: Mapping[str, HardwareDescription]) -> bool:
        """Return whether the pool or a specification says anything about a level."""
        return name in self.levels or _is_described(self.category, name, hardware)


def _is_described(
    category: str, name: str | None, hardware: Mapping[str, HardwareDescription]
) -> bool:
    return category == "gpu_type" and name in hardware


def _specifications(
    category: str, names: Sequence[str | None], hardware: Mapping[str, HardwareDescription]
) -> FloatArray:
    x = np.zeros((len(names), _N_SPECIFICATIONS))
    for row, name in enumerate(names):
        if name is not None and _is_described(category, name, hardware):
            x[row] = specification_vector(hardware[name]) - _REFERENCE
    return x


def specification_effects(category: str) -> LevelEffects:
    """Return the effects of a category's levels before any workload, from specifications alone.

    Examples
    --------
    >>> specification_effects("gpu_type").mean.tolist()
    [-0.25, -0.1, -0.5]
    """
    own, deviation, slope = _SPECIFICATION_SDS
    covariance = np.diag([_SLOPE_SD**2] * _N_SPECIFICATIONS)
    mean = SPECIFICATION_EXPONENTS.copy()
    return LevelEffects(category, (), mean, covariance, (own, deviation, slope))


def _typical(category: str) -> FloatArray:
    return _TYPICAL_GPU if category == "gpu_type" else _TYPICAL_OTHER


def pool_levels(
    category: str,
    evidence: Sequence[LevelEvidence],
    hardware: Mapping[str, HardwareDescription],
) -> LevelEffects:
    """Pool the effects that workloads found, with one piece of evidence per workload.

    ``m[w,c] = a_w + (1 + z_w) (e_c + u . x_c) + u_w . x_c + d_wc + error``, all Gaussian, the
    errors with the covariance that the workload reports; the four standard deviations are the mode
    of their posterior. The factor of z_w is first learned without z_w; the z_w sum to 0.

    Parameters
    ----------
    category
        The column.
    evidence
        Effects of the category's levels; workloads with a single level are left out.
    hardware
        Data sheets of accelerators by GPU type.

    References
    ----------
    Gelman and Hill (2007), Data analysis using regression and multilevel models, ch. 12-13.

    Examples
    --------
    >>> evidence = LevelEvidence("color", ("a", "b"), np.array([0.0, 1.0]), 1e-4 * np.eye(2))
    >>> effects = pool_levels("color", [evidence] * 4, {})
    >>> mean, _ = effects.joint(["a", "b"], {})
    >>> bool(0.7 < mean[1] - mean[0] < 1.0)
    True
    """
    chosen = _within_limit(evidence)
    if not chosen:
        return specification_effects(category)
    rows = _Rows.of(category, chosen, hardware)
    typical = _typical(category)
    pilot_mean, _ = rows.posterior(np.exp(typical))
    rows = rows.with_pattern(pilot_mean)
    logs = minimise_in_box(
        lambda logs: rows.loss(logs, typical),
        typical,
        [(float(median) - 3 * _HYPER_SD, float(median) + 3 * _HYPER_SD) for median in typical],
        _MAX_STEPS,
    )
    mean, covariance = rows.posterior(np.exp(logs))
    own, deviation, slope, response = (float(sd) for sd in np.exp(logs))
    response *= (1 + 1 / len(chosen)) ** 0.5
    return LevelEffects(category, rows.names, mean, covariance, (own, deviation, slope), response)


def _within_limit(evidence: Sequence[LevelEvidence]) -> list[LevelEvidence]:
    chosen: list[LevelEvidence] = []
    known: set[str] = set()
    total = 0
    for item in evidence:
        n, levels = len(item.levels), known.union(item.levels)
        if n > 1 and total + n <= MAX_POOLED_ROWS and len(levels) <= MAX_POOLED_LEVELS:
            chosen.append(item)
            known, total = levels, total + n
    return chosen


@dataclass(frozen=True, slots=True)
class _SameSize:
    """Workloads with the same number m of levels: rows, shape (n, m), and error covariances."""

    rows: IntArray
    errors: FloatArray

    @classmethod
    def groups(cls, evidence: Sequence[LevelEvidence]) -> list["_SameSize"]:
        sizes = np.array([len(item.levels) for item in evidence])
        starts = np.cumsum(sizes) - sizes
        return [
            cls(
                starts[sizes == size, None] + np.arange(size),
                np.array([item.covariance for item in evidence if len(item.levels) == size]),
            )
            for size in np.unique(sizes)
        ]


@dataclass(frozen=True, slots=True)
class _Rows:
    """All (workload, level) pairs as rows, one below another.

    Their covariance K is a block-diagonal B, with a block for each workload, plus the common part
    ``U C U'``, with a column of U for each latent effect and one for the mean response. Only the
    blocks and matrices of U's width are ever solved (Woodbury 1950).
    """

    names: tuple[str, ...]
    residual: FloatArray
    design: FloatArray
    is_vague: FloatArray
    pattern: FloatArray
    groups: Sequence[_SameSize]

    @classmethod
    def of(
        cls,
        category: str,
        evidence: Sequence[LevelEvidence],
        hardware: Mapping[str, HardwareDescription],
    ) -> "_Rows":
        names = tuple(sorted({level for item in evidence for level in item.levels}))
        levels = [level for item in evidence for level in item.levels]
        vague = [
            category == "gpu_type" and not _is_described(category, name, hardware) for name in names
        ]
        x = _specifications(category, levels, hardware)
        indicators = np.array([[level == name for name in names] for level in levels])
        effects = np.concatenate([item.effects for item in evidence])
        return cls(
            names,
            effects - x @ SPECIFICATION_EXPONENTS,
            np.hstack([indicators.astype(np.float64), x]),
            np.array(vague, dtype=np.float64),
            np.zeros(len(levels)),
            _SameSize.groups(evidence),
        )

    def with_pattern(self, mean: FloatArray) -> "_Rows":
        """Return the rows with the effects to which workloads respond more or less strongly."""
        return replace(self, pattern=self.design @ mean)

    def _latent(self, own: FloatArray) -> FloatArray:
        """Return the variances of the latent effects for n deviations of e, shape (n, n_latent)."""
        variances = own[:, None] ** 2 + UNKNOWN_SD**2 * self.is_vague
        slopes = np.full((len(own), _N_SPECIFICATIONS), _SLOPE_SD**2)
        return np.hstack([variances, slopes])

    def _common(self, sds: FloatArray) -> FloatArray:
        """Return the diagonal of C; responses are taken relative to their mean over the pool."""
        n_workloads = sum(len(group.rows) for group in self.groups)
        mean_response = -(sds[:, 3:] ** 2) / n_workloads
        return np.hstack([self._latent(sds[:, 0]), mean_response])

    def _within(self, sds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``log |B|`` and ``A' B^-1 A``, A = [U, residual], for rows of four deviations."""
        columns = np.column_stack([self.design, self.pattern, self.residual])
        _, deviation, slope, response = sds.T[:, :, None, None, None] ** 2
        log_determinant = np.zeros(len(sds))
        gram: FloatArray = np.zeros((len(sds), columns.shape[1], columns.shape[1]))
        for group in self.groups:
            block_columns, n_levels = columns[group.rows], group.rows.shape[1]
            x, pattern = block_columns[..., -2 - _N_SPECIFICATIONS : -2], block_columns[..., -2:-1]
            block = group.errors + _WORKLOAD_SD**2 + deviation * np.eye(n_levels)
            block = block + slope * (x @ x.mT) + response * (pattern @ pattern.mT)
            solved = np.linalg.solve(block, block_columns).reshape(len(sds), -1, columns.shape[1])
            gram += block_columns.reshape(-1, columns.shape[1]).T @ solved
            log_determinant += np.linalg.slogdet(block)[1].sum(axis=1)
        return log_determinant, gram

    def negative_log_posteriors(self, logs: FloatArray, typical: FloatArray) -> FloatArray:
        """Return the negative log posterior at n rows of four log deviations, shape (n,)."""
        log_determinant, gram = self._within(np.exp(logs))
        common = self._common(np.exp(logs))
        gram_u, cross, square = gram[:, :-1, :-1], gram[:, :-1, -1], gram[:, -1, -1]
        capacitance = np.eye(common.shape[1]) + common[:, :, None] * gram_u
        explained = np.linalg.solve(capacitance, (common * cross)[:, :, None])[:, :, 0]
        square = square - np.vecdot(cross, explained)
        log_determinant += np.linalg.slogdet(capacitance)[1]
        deviations = (logs - typical) / _HYPER_SD
        losses: FloatArray = (square + log_determinant + np.vecdot(deviations, deviations)) / 2
        return losses

    def loss(self, logs: FloatArray, typical: FloatArray) -> tuple[float, FloatArray]:
        """Return the negative log posterior and its gradient by forward differences."""
        steps = np.vstack([np.zeros(len(logs)), _STEP * np.eye(len(logs))])
        center, *stepped = self.negative_log_posteriors(logs + steps, typical)
        return float(center), (np.array(stepped) - center) / _STEP

    def posterior(self, sds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the levels' own effects and the slopes."""
        _, (gram,) = self._within(sds[None, :])
        common, prior = self._common(sds[None, :])[0], self._latent(sds[:1])[0]
        # U' K^-1 A without its last row: the mean response is not a latent effect.
        solved = np.linalg.solve(np.eye(len(common)) + gram[:-1, :-1] * common, gram[:-1])[:-1]
        mean = np.concatenate([np.zeros(len(self.names)), SPECIFICATION_EXPONENTS])
        covariance = np.diag(prior) - prior[:, None] * solved[:, : len(prior)] * prior
        return mean + prior * solved[:, -1], (covariance + covariance.T) / 2


def ordinary_kriging(covariance: FloatArray, noise: FloatArray) -> tuple[FloatArray, float]:
    """Return the weights of the measured levels and the variance at the last, asked level.

    Negative weights are set to 0, so that no forecast counts against another.

    References
    ----------
    Cressie (1993), Statistics for spatial data, sec. 3.2 (ordinary kriging).
    """
    n = len(covariance) - 1
    known = covariance[:n, :n] + np.diag(noise)
    system = np.ones((n + 1, n + 1))
    system[:n, :n], system[n, n] = known, 0.0
    right = np.append(covariance[:n, n], 1.0)
    weights = np.maximum(np.linalg.solve(system, right)[:n], 0.0)
    weights /= weights.sum()
    variance = covariance[n, n] - 2 * weights @ covariance[:n, n] + weights @ known @ weights
    return weights, float(variance)
