"""Which configurations to measure next: greedy, batch-aware design on the joint forecast."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from models.calibration.intervals import tempered
from models.planning.joint import JointForecast
from models.tables import BoolArray, FloatArray


@dataclass(frozen=True, slots=True)
class DesignStep:
    """One chosen configuration.

    Parameters
    ----------
    candidate
        Its position among the candidates.
    gain
        Expected decrease of the mean half width of the targets' log durations at 90 %.
    half_widths
        Expected half width of each target after this and all earlier steps, shape (n_targets,).
    """

    candidate: int
    gain: float
    half_widths: FloatArray


class Design:
    """A greedy design: each step takes the largest expected narrowing per unit of cost.

    With C the joint covariance, v the noise of a run and t a target, one run of candidate i leaves
    the variance ``Var[t] - C[t, i]^2 / (C[i, i] + v[i])``. This is known before the run, since the
    covariance of a normal posterior does not depend on the observed values. The covariance is then
    updated (rank one) and the next step chosen, so that a batch holds no two redundant runs.

    Parameters
    ----------
    joints
        The joint distributions by kind of question, all over the same candidates.
    costs
        Cost of a run of each candidate, shape (n_candidates,), positive.

    Raises
    ------
    ValueError
        If a cost is not positive and finite, or their number is not that of the candidates.

    References
    ----------
    MacKay (1992), Information-based objective functions for active data selection, Neural
    Computation 4(4). Krause, Singh, Guestrin (2008), Near-optimal sensor placements in Gaussian
    processes, JMLR 9. Khuller, Moss, Naor (1999), The budgeted maximum coverage problem.

    Examples
    --------
    >>> joint = JointForecast(
    ...     np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.1], [0.9, 0.1, 1.0]]),
    ...     np.full(3, 0.01), np.array([1.64]), np.array([0]))
    >>> design = Design([joint], np.array([1.0, 1.0]))
    >>> design.step(affordable=np.array([True, True])).candidate
    0
    """

    def __init__(self, joints: Sequence[JointForecast], costs: FloatArray) -> None:
        n = joints[0].n_candidates
        if len(costs) != n or not (np.isfinite(costs).all() and (costs > 0).all()):
            raise ValueError("Each candidate needs a cost that is positive and finite.")
        # Only ratios matter; costs more than twelve decades below the largest count the same.
        self._joints, self._costs = list(joints), np.clip(costs / costs.max(), 1e-12, 1.0)
        self._covariances = [joint.covariance.copy() for joint in joints]
        self._n, self._n_targets = n, sum(len(joint.targets) for joint in joints)

    def half_widths(self) -> FloatArray:
        """Return the half width of each target's log duration at 90 %, shape (n_targets,)."""
        widths = np.empty(self._n_targets)
        for joint, covariance in zip(self._joints, self._covariances, strict=True):
            variance = np.maximum(np.diag(covariance)[self._n :], 0.0) + joint.noise[self._n :]
            widths[joint.targets] = joint.half_width * tempered(np.sqrt(variance))
        return widths

    def least_half_widths(self) -> FloatArray:
        """Return the half widths due to the noise of one run alone, shape (n_targets,)."""
        widths = np.empty(self._n_targets)
        for joint in self._joints:
            sd = tempered(np.sqrt(joint.noise[self._n :]))
            widths[joint.targets] = joint.half_width * sd
        return widths

    def gains(self) -> FloatArray:
        """Return the expected gain of one run of each candidate, shape (n_candidates,)."""
        total = np.zeros(self._n)
        for joint, covariance in zip(self._joints, self._covariances, strict=True):
            n = self._n
            variance = np.maximum(np.diag(covariance)[:n], 0.0) + joint.noise[:n]
            before = np.maximum(np.diag(covariance)[n:], 0.0) + joint.noise[n:]
            removed = covariance[:n, n:] ** 2 / variance[:, None]
            after = tempered(np.sqrt(np.maximum(before - removed, joint.noise[n:])))
            total += ((tempered(np.sqrt(before)) - after) * joint.half_width).sum(axis=1)
        return total / self._n_targets

    def step(self, affordable: BoolArray) -> DesignStep | None:
        """Take the best of the affordable candidates; None if there is none.

        Parameters
        ----------
        affordable
            Which candidates may be taken, shape (n_candidates,).
        """
        if not affordable.any():
            return None
        gains = self.gains()
        gain_per_cost = np.where(affordable, gains / self._costs, -np.inf)
        chosen = int(gain_per_cost.argmax())
        self.measure(chosen)
        return DesignStep(chosen, float(gains[chosen]), self.half_widths())

    def measure(self, candidate: int) -> None:
        """Account for one run of a candidate, whatever its outcome."""
        for index, (joint, covariance) in enumerate(
            zip(self._joints, self._covariances, strict=True)
        ):
            column = covariance[:, candidate]
            variance = max(float(column[candidate]), 0.0) + joint.noise[candidate]
            self._covariances[index] = covariance - np.outer(column, column) / variance
