"""Whether a new regressor forecasts better than the published one, on the same folds."""

from dataclasses import dataclass

from models.portfolio import FittedPortfolio
from models.tables import RunTable


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two regressors judged on the same configurations; errors are MAPE as fractions."""

    challenger_mape: float
    incumbent_mape: float
    n_configurations: int
    is_better: bool


def compare(challenger: FittedPortfolio, incumbent: FittedPortfolio, runs: RunTable) -> Comparison:
    """Judge both regressors on the configurations of `runs`, each by what it had not seen."""
    raise ValueError("not yet")
