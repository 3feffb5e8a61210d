"""A fitted portfolio: the regressors of one workload, their weights and their calibration."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from models.distribution import LEVELS, ForecastDistribution
from models.encoding import Encoded, Encoder
from models.gaussian import GaussianProcess, share_kernels
from models.holdout import TREND_BREAK
from models.memory import Memory
from models.regimes import RegimeMap
from models.regressor import PortfolioRegressor
from models.reports import FitReport, Support
from models.support import describe_support
from models.tables import FeatureTable, FloatArray
from models.transfer import LevelTransfer

MAX_LOG_DISTANCE = 15.0
"""No forecast is further from the median duration of the runs than this, in log units."""

_MIN_VARIANCE = 1e-8
_PART = 1024


@dataclass(frozen=True, slots=True)
class RegimeModel:
    """How one kind of question is answered.

    `weights` and `residual_variances` (for members without a variance of their own) follow the
    order of the members; `curve` holds the calibrated half widths at the levels of
    `models.distribution`.
    """

    weights: FloatArray
    residual_variances: FloatArray
    curve: FloatArray


class FittedPortfolio:
    """The published form of a fit: forecasts with intervals, and what supports them.

    Made by `fit_portfolio` or `loads`; immutable by convention.

    Parameters
    ----------
    encoder, transfer, regime_map
        How questions are encoded, open levels answered, and kinds of question told apart.
    members
        The regressors with weight in some regime, by name.
    regimes
        How each kind of question is answered.
    center
        Median log duration of the configurations.
    memory
        The configurations of the fit: rows, keys, names of runs, held-out forecasts.
    report
        What was fitted on what, and how well.
    """

    def __init__(
        self,
        encoder: Encoder,
        transfer: LevelTransfer,
        regime_map: RegimeMap,
        members: Mapping[str, PortfolioRegressor],
        regimes: Mapping[str, RegimeModel],
        center: float,
        memory: Memory,
        report: FitReport,
    ) -> None:
        self.encoder, self.transfer, self.regime_map = encoder, transfer, regime_map
        self.members, self.regimes = dict(members), dict(regimes)
        self.center, self.memory, self.report = center, memory, report
        self._kernels = share_kernels(self.members.values())
        roles = [feature.role for feature in encoder.numeric]
        self._batch = roles.index("local_batch") if "local_batch" in roles else None

    def predict(self, features: FeatureTable) -> ForecastDistribution:
        """Return the forecast distribution of a new run of each row.

        Parameters
        ----------
        features
            The questions. A column that the fit knows and the table lacks counts as missing; one
            that the fit does not know is ignored (`support` names it).

        Returns
        -------
        ForecastDistribution
            Log seconds, shape (n_rows,): positive and finite, wider with the distance from the
            measured range.

        Raises
        ------
        ValueError
            If a forecast is not finite: a bug or a damaged artefact, never clipped in silence.
        """
        if features.n_rows == 0:
            return ForecastDistribution(np.empty(0), np.empty(0), (), np.empty((0, len(LEVELS))))
        encoded = self.encoder.encode(features)
        regimes = self.regime_map.of_rows(self.encoder, encoded.distances, encoded.codes)
        mean, variance = self._answer(encoded, features, regimes)
        variance = variance + encoded.variance
        if self._batch is not None:
            variance = variance + (TREND_BREAK * encoded.excess[:, self._batch]) ** 2
        bounded = np.clip(mean, self.center - MAX_LOG_DISTANCE, self.center + MAX_LOG_DISTANCE)
        curves = np.array([self.regimes[regime].curve for regime in regimes])
        scale = np.sqrt(np.maximum(variance, _MIN_VARIANCE))
        return ForecastDistribution(np.where(np.isnan(mean), mean, bounded), scale, regimes, curves)

    def support(self, features: FeatureTable) -> list[Support]:
        """Return how well the runs support each row: ranges, levels, nearest runs, basis."""
        return describe_support(
            features, self.encoder, self.transfer, self.memory, self.regime_map.few_levels
        )

    def _answer(
        self, encoded: Encoded, features: FeatureTable, regimes: tuple[str, ...]
    ) -> tuple[FloatArray, FloatArray]:
        gpu_types = features.categorical.get("gpu_type")
        expansion = self.transfer.expand(encoded, list(gpu_types) if gpu_types else None)
        if expansion is None:
            return self._mixture(encoded.X, regimes)
        asked = tuple(regimes[row] for row in expansion.source)
        means, variances = self._mixture(expansion.X, asked)
        means, variances = means + expansion.shift, variances + expansion.variance
        n, source, weights = len(regimes), expansion.source, expansion.weights
        mean, variance = np.zeros(n), np.zeros(n)
        np.add.at(mean, source, weights * means)
        np.add.at(variance, source, weights * (variances + (means - mean[source]) ** 2))
        return mean, variance

    def _mixture(self, X: FloatArray, regimes: tuple[str, ...]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the mixture, in parts that fit a processor's cache."""
        parts = [
            self._part(X[start : start + _PART], regimes[start : start + _PART])
            for start in range(0, len(X), _PART)
        ]
        for kernel in self._kernels:
            kernel.forget()
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([m for m, _ in parts]), np.concatenate([v for _, v in parts])

    def _part(self, X: FloatArray, regimes: tuple[str, ...]) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the members' mixture, by the weights of each row's regime."""
        chosen = [self.regimes[regime] for regime in regimes]
        weights = np.array([regime.weights for regime in chosen]).T
        total, square, within = np.zeros(len(X)), np.zeros(len(X)), np.zeros(len(X))
        for index, member in enumerate(self.members.values()):
            weight = weights[index]
            if not weight.any():
                continue
            # Processes share correlations only while they are asked for the very same matrix.
            whole = weight.all() or isinstance(member, GaussianProcess)
            rows = np.arange(len(X)) if whole else np.flatnonzero(weight)
            mean, variance = member.predict_moments(X if whole else X[rows])
            if variance is None:
                variance = np.array([chosen[row].residual_variances[index] for row in rows])
            # Moments about the centre keep the variance between members exact.
            mean = mean - self.center
            total[rows] += weight[rows] * mean
            square[rows] += weight[rows] * mean**2
            within[rows] += weight[rows] * variance
        return total + self.center, within + np.maximum(square - total**2, 0.0)
