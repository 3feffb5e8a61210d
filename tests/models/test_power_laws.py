"""What a law believes beforehand, and the steps of its fit."""

import numpy as np
import pytest

from models.features.layout import Layout
from models.laws.law_priors import law_prior
from models.laws.power_laws import damped_step


@pytest.mark.parametrize("n_configurations", [3, 12, 40])
@pytest.mark.parametrize("n_linked", [0, 5])
@pytest.mark.parametrize("damping", [1e-9, 1e-3, 8.0, 1e5])
def test_a_step_solves_the_damped_system(
    n_configurations: int, n_linked: int, damping: float
) -> None:
    rng = np.random.default_rng(n_configurations)
    jacobian, gradient = rng.normal(size=(n_configurations, 12)), rng.normal(size=12)
    precision = np.diag(rng.uniform(1, 50, 12))
    linked = np.arange(4, 4 + n_linked)
    block = rng.normal(size=(n_linked, n_linked))
    precision[np.ix_(linked, linked)] += block @ block.T
    hessian = jacobian.T @ jacobian + precision

    step = damped_step(precision, linked, jacobian, damping, gradient)

    solved = (hessian + damping * np.diag(np.diag(hessian))) @ step
    assert solved == pytest.approx(gradient, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("tightness", [1.0, 0.4])
def test_crossing_nodes_is_believed_to_cost_communication_and_nothing_else(
    tightness: float,
) -> None:
    layout = Layout(("workers", "multi_node"), (), ())

    prior = law_prior(layout, "serial", ("compute", "comm"), tightness)

    computation, communication = prior.means[3], prior.means[5]
    assert computation == 0
    assert communication > 0.5 * prior.sds[5] > prior.sds[3] > 0
