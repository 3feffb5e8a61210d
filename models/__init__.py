"""The regression library: measured runs of a workload in, forecasts of durations out."""

from models.candidates import REGRESSOR_NAMES
from models.comparison import Comparison, compare
from models.distribution import ForecastDistribution
from models.errors import (
    ArtifactError,
    NotEnoughRunsError,
    NothingFittedError,
    UnknownRegressorError,
)
from models.explanation import TermShare
from models.fitting import fit_portfolio
from models.hardware import HardwareDescription
from models.portfolio import FittedPortfolio
from models.reports import AxisSupport, Basis, CandidateReport, FitReport, Support
from models.serialization import FORMAT_VERSION, dumps, loads
from models.tables import FeatureTable, FloatArray, RunTable

__all__ = [
    "FORMAT_VERSION",
    "REGRESSOR_NAMES",
    "ArtifactError",
    "AxisSupport",
    "Basis",
    "CandidateReport",
    "Comparison",
    "FeatureTable",
    "FitReport",
    "FittedPortfolio",
    "FloatArray",
    "ForecastDistribution",
    "HardwareDescription",
    "NotEnoughRunsError",
    "NothingFittedError",
    "RunTable",
    "Support",
    "TermShare",
    "UnknownRegressorError",
    "compare",
    "dumps",
    "fit_portfolio",
    "loads",
]
