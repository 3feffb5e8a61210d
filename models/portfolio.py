"""A fitted portfolio: the regressors of one workload, their weights and their calibration."""

from models.distribution import ForecastDistribution
from models.reports import FitReport, Support
from models.tables import FeatureTable


class FittedPortfolio:
    """The published form of a fit: forecasts with intervals, and what supports them."""

    report: FitReport

    def predict(self, features: FeatureTable) -> ForecastDistribution:
        """Return the forecast distribution of each row."""
        raise ValueError("not yet")

    def support(self, features: FeatureTable) -> list[Support]:
        """Return how well the runs support each row."""
        raise ValueError("not yet")
