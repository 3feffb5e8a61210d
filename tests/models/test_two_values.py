"""Beyond an axis of two measured values a single power law goes on, and intervals are wide."""

import numpy as np
import pytest

from models import FeatureTable, FittedPortfolio, RunTable, fit_portfolio
from models.calibration.intervals import prior_curve

EXPONENTS = {"r": 0.3, "spark": 0.5, "xgboost": 0.8, "python": 1.2}
SIZES = (1e4, 1e5)


def fit_tools() -> FittedPortfolio:
    """Fit four tools on two sizes of data, each with a power of its own."""
    tools = [tool for tool in EXPONENTS for _ in SIZES]
    sizes = np.tile(SIZES, len(EXPONENTS))
    seconds = [(s / 1e3) ** EXPONENTS[tool] for s, tool in zip(sizes, tools, strict=True)]
    table = FeatureTable({"dataset_size": sizes}, {"param.tool": tools}, len(tools))
    names = [f"run_{row}" for row in range(len(tools))]
    return fit_portfolio(RunTable(table, np.array(seconds), names), seed=0, time_budget_s=30)


def test_a_hundred_times_the_data_go_on_as_a_power_of_their_size() -> None:
    tools = list(EXPONENTS)
    questions = FeatureTable({"dataset_size": np.full(4, 1e7)}, {"param.tool": tools}, 4)

    median = fit_tools().predict(questions).median()

    truth = np.array([1e4 ** EXPONENTS[tool] for tool in tools])
    assert abs(np.log(median / truth).mean()) < 1.0


@pytest.mark.parametrize("axis", ["dataset_size", "param.layers"])
@pytest.mark.parametrize("n_configurations", [6, 30])
def test_what_physics_does_not_pin_is_less_sure_beyond_two_values(
    axis: str, n_configurations: int
) -> None:
    pinned, free = (
        prior_curve("short_axis", n_configurations, axis=name)[2] for name in ("workers", axis)
    )

    assert free > 1.1 * pinned
    assert free < prior_curve("extrapolation", n_configurations)[2] * 1.01
