"""From runs to a fitted portfolio: encode, fit, hold out, weigh, calibrate."""

from collections.abc import Callable, Collection, Mapping

from models.hardware import HardwareDescription
from models.portfolio import FittedPortfolio
from models.tables import RunTable

REGRESSOR_NAMES: tuple[str, ...] = (
    "scaling_law",
    "log_linear",
    "gaussian_process",
    "scaling_process",
    "boosted_trees",
)


def fit_portfolio(
    runs: RunTable,
    *,
    seed: int,
    time_budget_s: float,
    regressors: Collection[str] | None = None,
    hardware: Mapping[str, HardwareDescription] | None = None,
    on_progress: Callable[[float, str], None] | None = None,
) -> FittedPortfolio:
    """Fit the portfolio on the runs of one workload."""
    raise ValueError("not yet")
