"""Effects of category levels across workloads: what a GPU type does, and how surely."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.hardware import (
    SPECIFICATION_EXPONENTS,
    UNKNOWN_SD,
    HardwareDescription,
    specification_vector,
)
from models.optimisation import minimise_in_box
from models.summaries import LevelEvidence
from models.tables import FloatArray

MAX_POOLED_ROWS = 400
"""Cost grows with the cube of the (workload, level) pairs; further workloads are left out."""

_WORKLOAD_SD = 5.0
_SLOPE_SD = 0.25
_REFERENCE: FloatArray = np.log([200.0, 17.0, 1200.0])
_N_SPECIFICATIONS = 3
_TYPICAL_GPU: FloatArray = np.log([0.3, 0.2, 0.1, 0.3])
_TYPICAL_OTHER: FloatArray = np.log([0.15, 0.15, 0.1, 0.3])
_UNTOLD_SDS = 0.15, 0.12, 0.1
_HYPER_SD = 0.7
_MAX_STEPS = 15
_STEP = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class LevelEffects:
    """Posterior of the effects of a category's levels, shared by all workloads.

    A workload's effect of level c is ``(1 + z_w) (e_c + u . x_c) + u_w . x_c + d_wc``, with x the
    log specifications of a GPU type and z_w how much more than others the workload responds.

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

    def responding(self, location: float, sd: float) -> "LevelEffects":
        """Return the effects on a workload of which ``z_w ~ N(location, sd^2)`` is known.

        Examples
        --------
        >>> effects = replace(untold_effects("gpu_type"), response=0.3).responding(0.2, 0.1)
        >>> effects.mean.round(2).tolist(), effects.response
        ([-0.3, -0.12, -0.6], 0.0)
        """
        spread = self.covariance + sd**2 * np.outer(self.mean, self.mean)
        return replace(self, mean=(1 + location) * self.mean, covariance=spread, response=0.0)

    def joint(
        self, names: Sequence[str | None], hardware: Mapping[str, HardwareDescription]
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of a new workload's effects of the named levels.

        Up to a constant that all levels have in common. A level that is unknown to the pool and has
        no specification is as uncertain as one about which nothing is known.
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
        """Return what is expected of the last named level beyond each other one, shape (n - 1,).

        A difference between two levels that the pool measured counts as none where it is smaller
        than its own posterior standard deviation: boards that hardly differ keep their forecasts.

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
        apart = design[-1] - design[:-1]
        found = apart @ self.mean
        is_measured = np.array([name in self.levels for name in names], dtype=np.bool_)
        is_untold = found**2 < np.vecdot(apart @ self.covariance, apart)
        return np.where(is_measured[:-1] & is_measured[-1] & is_untold, 0.0, found)

    def _design(
        self, names: Sequence[str | None], hardware: Mapping[str, HardwareDescription]
    ) -> FloatArray:
        """Return what each named level has of e and of u, shape (n, n_levels + 3)."""
        x = _specifications(self.category, names, hardware)
        told = np.array([self.is_known(name, hardware) for name in names], dtype=np.bool_)
        if told.any():
            # About a level of which nothing is known, the others are the best guess.
            x[~told] = x[told].mean(axis=0)
        own = np.array([[name == level for level in self.levels] for name in names], dtype=float)
        return np.hstack([own.reshape(len(names), -1), x])

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


def untold_effects(category: str) -> LevelEffects:
    """Return what is believed of a category's levels before any workload: specifications alone.

    Examples
    --------
    >>> untold_effects("gpu_type").mean.tolist()
    [-0.25, -0.1, -0.5]
    """
    own, deviation, slope = _UNTOLD_SDS
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
    """Pool the effects that workloads found, one piece of evidence a workload.

    ``m[w,c] = a_w + (1 + z_w) (e_c + u . x_c) + u_w . x_c + d_wc + error``, all Gaussian, the
    errors with the covariance that the workload reports; the four standard deviations by the mode
    of their posterior. What z_w multiplies is first learned without it; the z_w sum to 0.

    Parameters
    ----------
    category
        The column.
    evidence
        Effects of the category's levels, those of two levels and more.
    hardware
        Data sheets of accelerators by GPU type.

    References
    ----------
    Gelman and Hill (2007), Data analysis using regression and multilevel models, ch. 12-13.

    Examples
    --------
    >>> told = LevelEvidence("color", ("a", "b"), np.array([0.0, 1.0]), 1e-4 * np.eye(2))
    >>> effects = pool_levels("color", [told] * 4, {})
    >>> mean, _ = effects.joint(["a", "b"], {})
    >>> bool(0.7 < mean[1] - mean[0] < 1.0)
    True
    """
    chosen = _within_limit(evidence)
    if not chosen:
        return untold_effects(category)
    rows = _Rows.of(category, chosen, hardware)
    typical = _typical(category)
    first, _ = rows.posterior(np.exp(typical))
    rows = rows.responding(first)
    logs = minimise_in_box(
        rows.loss(typical),
        typical,
        [(float(at) - 3 * _HYPER_SD, float(at) + 3 * _HYPER_SD) for at in typical],
        _MAX_STEPS,
    )
    mean, covariance = rows.posterior(np.exp(logs))
    own, deviation, slope, response = (float(sd) for sd in np.exp(logs))
    response *= (1 + 1 / len(chosen)) ** 0.5
    return LevelEffects(category, rows.names, mean, covariance, (own, deviation, slope), response)


def _within_limit(evidence: Sequence[LevelEvidence]) -> list[LevelEvidence]:
    chosen: list[LevelEvidence] = []
    total = 0
    for item in evidence:
        n = len(item.levels)
        if n > 1 and total + n <= MAX_POOLED_ROWS:
            chosen.append(item)
            total += n
    return chosen


@dataclass(frozen=True, slots=True)
class _Rows:
    """All (workload, level) pairs below each other."""

    names: tuple[str, ...]
    effects: FloatArray
    fixed: FloatArray
    x: FloatArray
    same_workload: FloatArray
    of_level: FloatArray
    is_vague: FloatArray
    pattern: FloatArray
    n_workloads: int

    @classmethod
    def of(
        cls,
        category: str,
        evidence: Sequence[LevelEvidence],
        hardware: Mapping[str, HardwareDescription],
    ) -> "_Rows":
        names = tuple(sorted({level for item in evidence for level in item.levels}))
        levels = [level for item in evidence for level in item.levels]
        workload = np.repeat(np.arange(len(evidence)), [len(item.levels) for item in evidence])
        same = np.equal.outer(workload, workload).astype(np.float64)
        fixed = _WORKLOAD_SD**2 * same
        start = 0
        for item in evidence:
            stop = start + len(item.levels)
            fixed[start:stop, start:stop] += item.covariance
            start = stop
        vague = np.array(
            [
                category == "gpu_type" and not _is_described(category, name, hardware)
                for name in names
            ]
        )
        return cls(
            names,
            np.concatenate([item.effects for item in evidence]),
            fixed,
            _specifications(category, levels, hardware),
            same,
            np.array([[level == name for name in names] for level in levels], dtype=np.float64),
            vague.astype(np.float64),
            np.zeros(len(levels)),
            len(evidence),
        )

    def responding(self, mean: FloatArray) -> "_Rows":
        """Return the rows with the effects that a workload responds to more or less than others."""
        return replace(self, pattern=self._design() @ mean)

    def _design(self) -> FloatArray:
        return np.hstack([self.of_level, self.x])

    def _latent(self, own: float) -> FloatArray:
        variances = own**2 + UNKNOWN_SD**2 * self.is_vague
        return np.concatenate([variances, np.full(_N_SPECIFICATIONS, _SLOPE_SD**2)])

    def _covariance(self, sds: FloatArray) -> FloatArray:
        own, deviation, slope, response = sds
        design = self._design()
        total = self.fixed + (design * self._latent(float(own))) @ design.T
        total += slope**2 * (self.x @ self.x.T) * self.same_workload
        # Responses are told from their mean over the pool: it belongs to the effects themselves.
        differing = self.same_workload - 1 / self.n_workloads
        total += response**2 * np.outer(self.pattern, self.pattern) * differing
        total[np.diag_indices(len(total))] += deviation**2
        return total

    def _residual(self) -> FloatArray:
        return self.effects - self.x @ SPECIFICATION_EXPONENTS

    def loss(self, typical: FloatArray) -> "_Loss":
        return _Loss(self, typical)

    def minus_log_posterior(self, logs: FloatArray, typical: FloatArray) -> float:
        """Return the negative log posterior of the logs of the four standard deviations."""
        factor = np.linalg.cholesky(self._covariance(np.exp(logs)))
        whitened = np.linalg.solve(factor, self._residual())
        off = (logs - typical) / _HYPER_SD
        value = whitened @ whitened / 2 + np.log(np.diag(factor)).sum() + off @ off / 2
        return float(value)

    def posterior(self, sds: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and covariance of the levels' own effects and the slopes."""
        prior = self._latent(float(sds[0]))
        cross = self._design() * prior
        gain = np.linalg.solve(self._covariance(sds), cross).T
        mean = np.concatenate([np.zeros(len(self.names)), SPECIFICATION_EXPONENTS])
        covariance = np.diag(prior) - gain @ cross
        return mean + gain @ self._residual(), (covariance + covariance.T) / 2


@dataclass(frozen=True, slots=True)
class _Loss:
    """The negative log posterior with its gradient by forward differences."""

    rows: _Rows
    typical: FloatArray

    def __call__(self, logs: FloatArray) -> tuple[float, FloatArray]:
        at = self.rows.minus_log_posterior(logs, self.typical)
        slopes = [
            (self.rows.minus_log_posterior(logs + _STEP * axis, self.typical) - at) / _STEP
            for axis in np.eye(len(logs))
        ]
        return at, np.array(slopes)
