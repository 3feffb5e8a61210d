"""The covariance that fits learn from: pair by pair, with slopes, shared where it is the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from models.processes.kernels import KernelParameters, ServingKernel
from models.processes.training_kernel import KernelInputs, TrainingKernel, training_kernel
from models.tables import FloatArray

_N_NUMERIC, _N_CATEGORIES = 3, 2


def _inputs(n: int, n_values: int, seed: int = 0) -> KernelInputs:
    """Return n configurations: one feature of `n_values` values, two that hardly repeat."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, _N_NUMERIC))
    x[:, 0] = generator.integers(0, n_values, n)
    codes = generator.integers(0, 4, (n, _N_CATEGORIES))
    return KernelInputs.of(x, codes, generator.integers(1, 4, n).astype(np.float64))


def _logs(seed: int) -> FloatArray:
    n_parameters = 3 + 2 * _N_NUMERIC + _N_CATEGORIES
    return np.random.default_rng(seed).normal(-0.5, 0.5, n_parameters)


def _symmetric(n: int, seed: int) -> FloatArray:
    matrix = np.random.default_rng(seed).normal(size=(n, n))
    return np.asarray(matrix + matrix.T, dtype=np.float64)


@settings(max_examples=40)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 1000))
def test_configurations_covary_as_questions_do_with_them(n: int, n_values: int, seed: int) -> None:
    inputs, logs = _inputs(n, n_values, seed), _logs(seed)
    parameters = KernelParameters.from_log(logs, _N_NUMERIC)
    serving = ServingKernel(parameters, inputs.x, inputs.codes, np.ones(_N_NUMERIC))

    covariance = TrainingKernel(inputs).covariance(logs)

    expected = parameters.deviation**2 * serving(inputs.x, inputs.codes)
    np.testing.assert_allclose(covariance, expected, rtol=1e-12)
    np.testing.assert_array_equal(covariance, covariance.T)


@pytest.mark.parametrize("n_values", [2, 1000])
def test_gradient_is_that_of_covariance_and_noise(n_values: int) -> None:
    inputs, logs, inner = _inputs(30, n_values), _logs(1), _symmetric(30, 2)
    kernel = TrainingKernel(inputs)

    def total(at: FloatArray) -> float:
        parameters = KernelParameters.from_log(at, _N_NUMERIC)
        noise = parameters.roughness**2 + parameters.noise**2 / inputs.counts
        return float((inner * (TrainingKernel(inputs).covariance(at) + np.diag(noise))).sum())

    steps = 1e-6 * np.eye(len(logs))
    expected = [(total(logs + step) - total(logs - step)) / 2e-6 for step in steps]

    np.testing.assert_allclose(
        kernel.gradient(logs, inner, shape_fixed=False), expected, rtol=1e-6, atol=1e-6
    )


def test_gradient_of_a_fixed_shape_is_that_of_the_deviations_alone() -> None:
    kernel, logs, inner = TrainingKernel(_inputs(20, 3)), _logs(1), _symmetric(20, 2)

    alone = kernel.gradient(logs, inner, shape_fixed=True)

    assert not alone[3:].any()
    np.testing.assert_array_equal(alone[:3], kernel.gradient(logs, inner, shape_fixed=False)[:3])


def test_shape_asked_for_in_between_changes_nothing() -> None:
    inputs, first, second = _inputs(20, 3), _logs(1), _logs(2)
    kernel = TrainingKernel(inputs)

    found = [kernel.covariance(logs) for logs in (first, second, first)]

    np.testing.assert_array_equal(found[0], TrainingKernel(inputs).covariance(first))
    np.testing.assert_array_equal(found[1], TrainingKernel(inputs).covariance(second))
    np.testing.assert_array_equal(found[2], found[0])


def test_kernel_is_shared_by_those_who_ask_of_equal_configurations() -> None:
    inputs = _inputs(20, 3)
    others = [
        KernelInputs.of(inputs.x + 1e-9, inputs.codes, inputs.counts),
        KernelInputs.of(inputs.x, inputs.codes[::-1].copy(), inputs.counts),
        KernelInputs.of(inputs.x, inputs.codes, inputs.counts + 1),
    ]

    shared = training_kernel(_inputs(20, 3))

    assert training_kernel(inputs) is shared
    assert all(training_kernel(other) is not training_kernel(inputs) for other in others)


class _SharedKernel(TrainingKernel):
    """A kernel that another thread asks for another shape as soon as it has made one."""

    def __init__(self, inputs: KernelInputs, other: FloatArray) -> None:
        self._other: FloatArray | None = other
        super().__init__(inputs)

    @override
    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, value)
        if name == "_shape" and value is not None and self._other is not None:
            other, self._other = self._other, None
            self.covariance(other)


def test_another_thread_may_ask_for_another_shape_meanwhile() -> None:
    inputs = _inputs(12, 3)

    covariance = _SharedKernel(inputs, _logs(1)).covariance(_logs(0))

    np.testing.assert_array_equal(covariance, TrainingKernel(inputs).covariance(_logs(0)))
