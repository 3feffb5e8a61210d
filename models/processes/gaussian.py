"""A Gaussian process on log features around a law: the law extrapolates, the process corrects."""

from typing import Any, Self

import numpy as np
from typing_extensions import override

from models.features.layout import Layout
from models.laws.power_laws import FittedLaw, evaluate_law
from models.laws.scaling_laws import LogLinearLaw, ScalingLaw, random_subset
from models.numerics.optimisation import minimise_in_box
from models.numerics.positive_definite import invert_lower
from models.numerics.triangles import LowerTriangle, gram_of_lower
from models.processes.conditioning import Rows, conditioning_factors, conditioning_rows
from models.processes.hyperposterior import Observed, cholesky, negative_log_posterior
from models.processes.kernels import N_DEVIATIONS, KernelParameters, ServingKernel
from models.processes.training_kernel import KernelInputs, training_kernel
from models.regressor import PortfolioRegressor, State
from models.runs.repetitions import PRIOR_NOISE_SD, pooled_variance
from models.state.checks import check_bounded, check_rows, demand
from models.tables import FloatArray

MAX_TUNING_CONFIGURATIONS = 200
"""Most that hyper-parameters are tuned on: each of dozens of steps is cubic in their number."""

MAX_PROCESS_CONFIGURATIONS = 300
"""Most that are held: a first forecast is cubic in their number, every other one quadratic."""

_DEVIATION, _ROUGHNESS, _STRENGTH, _LENGTH, _SHARE = 0.1, 0.015, 0.5, 1.5, 0.15
"""Prior medians of the hyper-parameters of `models.processes.kernels`; that of the noise comes from
repetitions (`models.runs.repetitions`).

Lengths are in standard deviations of the feature."""

_LENGTH_SD, _OTHER_SD = 0.7, 1.0
"""Prior standard deviations of their logs."""

_BOX = 3.5
"""Half width of the search box of the logs, in prior standard deviations."""

_MIN_NOISE, _MIN_NOISE_SD = 1e-4, 0.05
"""Least deviation of repetitions, and least prior deviation of its log."""

_MAX_LOG_PARAMETER = 50.0
"""Bound on the log parameters of an artefact, beyond any search box."""

_NOISE_DOF = 3
"""With fewer degrees of freedom, the noise of repetitions is pooled with its prior."""

_Measured = tuple[FloatArray, FloatArray, FloatArray]
"""Rows, log durations and numbers of repetitions of configurations."""


class GaussianProcess(PortfolioRegressor):
    """A Gaussian process whose mean is a power law with uncertain parameters.

    ``y = f(theta^) + J (theta - theta^) + u + e`` with ``theta ~ N(prior)``, ``u`` a process with
    the kernel of `models.processes.kernels` and ``e ~ N(0, tau^2 + sigma^2 / c)`` for a
    configuration with c repetitions. Hyper-parameters maximise the marginal likelihood times
    log-normal priors.

    Parameters
    ----------
    layout
        How to read the columns of X.
    law
        The law whose most plausible template is the mean; a log-linear law if None.
    held
        Keep the law at its own fit (theta from its Laplace posterior) instead of fitting both at
        once: safer where an axis has few levels and the process would absorb the trend.
    noise_sd, noise_dof
        Standard deviation of repetitions and its degrees of freedom.
    start
        Feature scales and log hyper-parameters to start from.
    max_iterations
        Steps of the optimiser; 0 keeps `start`.
    shape_fixed
        Keep strengths, lengths and shares of `start` and optimise the three deviations alone.
    seed
        Seed for the choice of a subset of large sets.

    References
    ----------
    Rasmussen and Williams (2006), Gaussian processes for machine learning, ch. 2 and 5. Kennedy
    and O'Hagan (2001), Bayesian calibration of computer models, J. R. Statist. Soc. B 63(3).
    Snelson and Ghahramani (2006), Sparse Gaussian processes using pseudo-inputs, NeurIPS 18.

    Examples
    --------
    >>> X = np.array([[np.log(w), float(w == 1)] for w in (1, 2, 4, 8)])
    >>> process = GaussianProcess(Layout(("workers",), (), ())).fit(X, 5 - X[:, 0])
    >>> bool(abs(process.predict(X[:1]) - 5)[0] < 0.05)
    True
    """

    def __init__(  # noqa: PLR0913 - an estimator takes every choice as a keyword
        self,
        layout: Layout,
        law: ScalingLaw | None = None,
        held: bool = False,  # noqa: FBT001, FBT002 - an estimator's parameters are set by name
        noise_sd: float = PRIOR_NOISE_SD,
        noise_dof: int = 0,
        start: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
        max_iterations: int = 30,
        shape_fixed: bool = False,  # noqa: FBT001, FBT002 - as above
        seed: int = 0,
    ) -> None:
        self.layout, self.law, self.held = layout, law, held
        self.noise_sd, self.noise_dof = noise_sd, noise_dof
        self.start, self.max_iterations = start, max_iterations
        self.shape_fixed, self.seed = shape_fixed, seed

    @override
    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit the law, then the hyper-parameters and the process around it."""
        self.law_ = self._new_law()
        self.law_.fit(X, y)
        counts = np.ones(len(y)) if sample_weight is None else sample_weight
        data = X, y, counts
        tuning_data = _subset(data, MAX_TUNING_CONFIGURATIONS, self.seed)
        held_data = _subset(data, MAX_PROCESS_CONFIGURATIONS, self.seed)
        sd = self.layout.numeric(tuning_data[0]).std(axis=0)
        self.scales_ = np.array(self.start[0]) if self.start else np.where(sd > 0, sd, 1.0)
        observed = self._observed(*held_data)
        is_tuned_on_subset = self.max_iterations > 0 and len(y) > MAX_TUNING_CONFIGURATIONS
        self.log_parameters_ = self._optimise(
            self._observed(*tuning_data) if is_tuned_on_subset else observed
        )
        self._condition(held_data[0], observed)
        if len(y) > MAX_PROCESS_CONFIGURATIONS:
            rows = conditioning_rows(len(y))
            mean, jacobian = self._mean_and_jacobian(X[rows])
            response, weighted = self.response(X[rows], counts[rows])
            self.alpha_ = response @ (weighted @ (y[rows] - mean - jacobian @ self.shift_))
        return self

    def _observed(self, X: FloatArray, y: FloatArray, counts: FloatArray) -> Observed:
        mean, jacobian = self._mean_and_jacobian(X)
        law = self._best_law
        coupling = law.covariance @ jacobian.T if self.held else law.prior.coupling(jacobian)
        rows = self._rows(X)
        kernel = training_kernel(KernelInputs.of(rows.x, rows.codes, counts))
        return Observed(kernel, y - mean, coupling, jacobian @ coupling)

    def _condition(self, X: FloatArray, observed: Observed) -> None:
        """Condition the process on the residuals of the configurations that it holds."""
        parameters = KernelParameters.from_log(self.log_parameters_, len(self.scales_))
        kernel = observed.kernel
        noise = parameters.roughness**2 + parameters.noise**2 / kernel.counts
        factor = cholesky(kernel.covariance(self.log_parameters_) + observed.base, noise)
        inverse = invert_lower(factor)
        self.inverse_factor_ = LowerTriangle.of(inverse)
        self.alpha_ = inverse.T @ (inverse @ observed.residual)
        self.X_, self.coupling_ = np.ascontiguousarray(X), np.ascontiguousarray(observed.coupling)
        self.shift_: FloatArray = observed.coupling @ self.alpha_
        self._prepare()

    def response(self, X: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the matrix from the law's residuals on the rows X to `alpha_`, as two factors.

        See `models.processes.conditioning.conditioning_factors`; `counts` are numbers of
        repetitions. The law's parameters and the variance stay those of the held configurations.
        """
        noise = self._parameters.roughness**2 + self._parameters.noise**2 / counts
        return conditioning_factors(
            self.kernel, self._rows(self.X_), self._rows(X), self.scatter, noise
        )

    def _rows(self, X: FloatArray) -> Rows:
        return Rows(self.layout.numeric(X) / self.scales_, self.layout.codes(X))

    @override
    def predict_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return mean and variance of the log duration of one new run."""
        law = self._best_law
        evaluated = evaluate_law(self.layout, law.prior.terms, law.theta, X)
        return self.moments_given(evaluated, self.correlations(X))

    def correlations(self, X: FloatArray) -> FloatArray:
        """Return the correlations of rows with the training rows, shape (n, n_training)."""
        rows = self._rows(X)
        return self.kernel(rows.x, rows.codes)

    def moments_given(
        self, evaluated: tuple[FloatArray, FloatArray], correlations: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return what `predict_moments` does, given the law's log durations and Jacobian.

        Several processes may share these and the correlations with the training rows.
        """
        mean, jacobian = self._mean(*evaluated), evaluated[1]
        cross = self.scatter * correlations + jacobian @ self.coupling_
        whitened = cross @ self.inverse_factor_.full().T
        explained = np.einsum("ij,ij->i", whitened, whitened)
        prior = self._prior_variance(jacobian)
        variance = np.maximum(self.scatter + prior - explained, 0.0)
        correction = self.scatter * (correlations @ self.alpha_) + jacobian @ self.shift_
        return mean + correction, variance + self.noise

    @override
    def covariance(self, A: FloatArray, B: FloatArray) -> FloatArray | None:
        """Return the posterior covariance of law and process between two sets of rows."""
        a, b = (self._mean_and_jacobian(X)[1] for X in (A, B))
        rows_a, rows_b = self._rows(A), self._rows(B)
        kernel = ServingKernel(self._parameters, rows_b.x, rows_b.codes, self.scales_)
        within = self.scatter * kernel(rows_a.x, rows_a.codes)
        prior = within + a @ self._parameter_covariance() @ b.T
        inverse = self.inverse_factor_.full()
        whitened = [self._cross(X, jacobian) @ inverse.T for X, jacobian in ((A, a), (B, b))]
        return prior - whitened[0] @ whitened[1].T

    @override
    def refit_clone(self) -> Self:
        """Return an unfitted copy that keeps the template and the hyper-parameters."""
        fixed = {"law": self.law_.refit_clone(), "start": self.shape(), "max_iterations": 0}
        return type(self)(**{**self.get_params(), **fixed})

    @property
    def scatter(self) -> float:
        """Variance of the process far from every configuration."""
        return self._parameters.deviation**2

    @property
    def noise(self) -> float:
        """Variance of a new run that no measurement removes."""
        return self._parameters.roughness**2 + self._parameters.noise**2

    @property
    @override
    def run_variance(self) -> float | None:
        """Return the variance of a new run that no measurement removes."""
        return self.noise

    def mean_slopes(self) -> FloatArray:
        """Return the coefficients of what the mean adds to the law: correlations, derivatives."""
        law_slopes = self.shift_
        if not self.held:
            law_slopes = law_slopes + self._best_law.prior.means - self._best_law.theta
        return np.concatenate([self._parameters.deviation**2 * self.alpha_, law_slopes])

    def variance_form(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the quadratic form of the variance in the same features, without the constant.

        It has three blocks: among correlations, between correlations and the law's derivatives, and
        among derivatives.
        """
        factor, deviation = self.inverse_factor_.full(), self._parameters.deviation**2
        whitened = factor @ self.coupling_.T
        correlation_block = gram_of_lower(factor)
        correlation_block *= -(deviation**2)
        cross_block = -deviation * (factor.T @ whitened)
        return correlation_block, cross_block, self._parameter_covariance() - whitened.T @ whitened

    def shape(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return feature scales and log hyper-parameters, from which another process may start."""
        return tuple(self.scales_.tolist()), tuple(self.log_parameters_.tolist())

    @override
    def to_state(self) -> State:
        """Return law, training rows and the factor of their covariance as data."""
        law = self.law_.to_state()
        arrays = {f"law.{name}": array for name, array in law.arrays.items()}
        return State(
            {f"law.{name}": value for name, value in law.values.items()},
            {
                **arrays,
                "X": self.X_,
                "alpha": self.alpha_,
                "coupling": self.coupling_,
                "shift": self.shift_,
                "scales": self.scales_,
                "log_parameters": self.log_parameters_,
                "inverse_factor": self.inverse_factor_.numbers,
            },
        )

    @override
    def load_state(self, state: State) -> None:
        """Restore law and process from data.

        Raises
        ------
        ValueError
            If the numbers do not fit each other.
        """
        self.law_ = self._new_law()
        self.law_.load_state(state.below("law."))
        self.X_, self.alpha_ = state.arrays["X"], state.arrays["alpha"]
        self.coupling_, self.scales_ = state.arrays["coupling"], state.arrays["scales"]
        self.log_parameters_ = state.arrays["log_parameters"]
        self.shift_ = state.arrays["shift"]
        factor = state.arrays["inverse_factor"]
        self._check(factor, state.shared)
        self.inverse_factor_ = LowerTriangle(len(self.alpha_), factor)
        shape = self.log_parameters_[N_DEVIATIONS:].tobytes()
        key = ("kernel", id(self.X_), id(self.scales_), shape)
        self._prepare(state.shared.get(key))
        state.shared.setdefault(key, self.kernel)

    def _check(self, factor: FloatArray, shared: dict[tuple[object, ...], Any]) -> None:
        """Check shapes and bounds of what was loaded."""
        n, width = len(self.X_), self.layout.n_numeric
        rows = ("rows", id(self.X_))
        if rows not in shared:
            check_rows(self.X_, self.layout)
            shared[rows] = self.X_
        demand(self.alpha_.shape == (n,) and factor.shape == (n * (n + 1) // 2,), "rows do not fit")
        demand(self.coupling_.shape == (len(self._best_law.theta), n), "a coupling does not fit")
        check_bounded(self.shift_, (len(self._best_law.theta),), "a shift")
        check_bounded(self.scales_, (width,), "scales")
        demand((self.scales_ > 0).all(), "a scale is not positive")
        n_parameters = N_DEVIATIONS + 2 * width + len(self.layout.levels)
        check_bounded(self.log_parameters_, (n_parameters,), "a kernel", _MAX_LOG_PARAMETER)

    def _new_law(self) -> ScalingLaw:
        law = self.law or LogLinearLaw(self.layout, seed=self.seed)
        return type(law)(**law.get_params())

    def _prepare(self, twin: ServingKernel | None = None) -> None:
        self._parameters = KernelParameters.from_log(self.log_parameters_, len(self.scales_))
        if twin is not None:
            self.kernel = twin.with_deviation(self._parameters)
            return
        held = self._rows(self.X_)
        self.kernel = ServingKernel(self._parameters, held.x, held.codes, self.scales_)

    @property
    def _best_law(self) -> FittedLaw:
        return self.law_.laws_[0]

    def _parameter_covariance(self) -> FloatArray:
        return self._best_law.covariance if self.held else self._best_law.prior.full_covariance()

    def _mean_and_jacobian(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        law = self._best_law
        f, jacobian = evaluate_law(self.layout, law.prior.terms, law.theta, X)
        return self._mean(f, jacobian), jacobian

    def _mean(self, f: FloatArray, jacobian: FloatArray) -> FloatArray:
        """Return the mean, given the log durations and the Jacobian of the law."""
        if not self.held:
            f = f + jacobian @ (self._best_law.prior.means - self._best_law.theta)
        return f + self.law_.center_

    def _prior_variance(self, jacobian: FloatArray) -> FloatArray:
        if self.held:
            product = jacobian @ self._best_law.covariance
            return np.asarray(np.einsum("ij,ij->i", product, jacobian), dtype=np.float64)
        return self._best_law.prior.variance(jacobian)

    def _cross(self, X: FloatArray, jacobian: FloatArray) -> FloatArray:
        """Return the prior covariance of rows with the training rows, shape (n, n_training)."""
        return self.scatter * self.correlations(X) + jacobian @ self.coupling_

    def _hyper_prior(self) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations of the log hyper-parameters."""
        n_numeric, n_categories = self.layout.n_numeric, len(self.layout.levels)
        dof = self.noise_dof
        variance = pooled_variance(self.noise_sd**2, dof, max(_NOISE_DOF - dof, 0))
        noise = max(float(np.sqrt(variance)), _MIN_NOISE)
        log_noise_sd = 1 / np.sqrt(2 * dof) + _MIN_NOISE_SD if dof else _OTHER_SD
        strengths = [_STRENGTH * min(factor, 1.0) for factor in self.layout.relevances]
        lengths, shares = [_LENGTH] * n_numeric, [_SHARE] * n_categories
        means = [_DEVIATION, _ROUGHNESS, noise, *strengths, *lengths, *shares]
        sds = np.full(len(means), _OTHER_SD)
        sds[N_DEVIATIONS - 1] = log_noise_sd
        sds[N_DEVIATIONS + n_numeric : N_DEVIATIONS + 2 * n_numeric] = _LENGTH_SD
        return np.log(means), sds

    def _optimise(self, observed: Observed) -> FloatArray:
        means, sds = self._hyper_prior()
        start = np.array(self.start[1]) if self.start else means
        if self.max_iterations == 0 or len(observed.residual) < 3:  # noqa: PLR2004 - nothing to learn from
            return start
        low, high = means - _BOX * sds, means + _BOX * sds
        if self.shape_fixed:
            low[N_DEVIATIONS:] = high[N_DEVIATIONS:] = start[N_DEVIATIONS:]
        return minimise_in_box(
            lambda logs: negative_log_posterior(
                observed, logs, means, sds, shape_fixed=self.shape_fixed
            ),
            np.clip(start, low, high),
            list(zip(low.tolist(), high.tolist(), strict=True)),
            self.max_iterations,
        )


def _subset(data: _Measured, limit: int, seed: int) -> _Measured:
    """Return a random subset of configurations, or all if there are no more than `limit`."""
    rows = random_subset(len(data[1]), limit, seed)
    X, y, counts = data
    return X[rows], y[rows], counts[rows]
