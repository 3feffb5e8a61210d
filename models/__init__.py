"""The regression library: measured runs of a workload in, forecasts of durations out."""

from models.accelerator_memory.law import Feasibility, MemoryLaw
from models.answers.departures import Departure
from models.answers.inquiry import Inquiry
from models.answers.standing import Standing
from models.answers.support import SupportColumns
from models.artefacts.serialization import FORMAT_VERSION, dumps, loads
from models.candidates import REGRESSOR_NAMES
from models.comparison import Comparison, compare
from models.convergence import ConvergenceLaw, ConvergenceRuns, NoiseScale
from models.distribution import NORMAL_KNOTS, ForecastDistribution
from models.errors import (
    ArtifactError,
    NotEnoughRunsError,
    NothingFittedError,
    UnknownRegressorError,
)
from models.evidence import Evidence, MemoryRuns, UnfinishedRuns
from models.explanations.influence import Lesson
from models.explanations.phases import PhaseRuns
from models.features.hardware import HardwareDescription, mean_description
from models.features.placement import nodes_for
from models.fitting import fit_portfolio
from models.laws.ernest import ernest_design, ernest_features
from models.once import once
from models.planning.cold_start import PriorForecast, prior_forecast
from models.planning.design import Design, DesignStep
from models.planning.joint import JointForecast, joint_forecast
from models.pooling.factory import factory_summaries
from models.pooling.priors import PooledPrior
from models.pooling.summaries import FORMAT_OF_SUMMARIES, WorkloadSummary, summarise
from models.portfolio import FittedPortfolio
from models.reports import (
    AxisSupport,
    Basis,
    CandidateReport,
    ChangePoint,
    EvidenceReport,
    FitReport,
    MemoryCounts,
    Outlier,
    PoolingReport,
    Support,
    UnfinishedCounts,
)
from models.screening.eras import at_present
from models.selection.holdout import FoldMap
from models.tables import BoolArray, FeatureTable, FloatArray, IntArray, RunTable

__all__ = [
    "FORMAT_OF_SUMMARIES",
    "FORMAT_VERSION",
    "NORMAL_KNOTS",
    "REGRESSOR_NAMES",
    "ArtifactError",
    "AxisSupport",
    "Basis",
    "BoolArray",
    "CandidateReport",
    "ChangePoint",
    "Comparison",
    "ConvergenceLaw",
    "ConvergenceRuns",
    "Departure",
    "Design",
    "DesignStep",
    "Evidence",
    "EvidenceReport",
    "Feasibility",
    "FeatureTable",
    "FitReport",
    "FittedPortfolio",
    "FloatArray",
    "FoldMap",
    "ForecastDistribution",
    "HardwareDescription",
    "Inquiry",
    "IntArray",
    "JointForecast",
    "Lesson",
    "MemoryCounts",
    "MemoryLaw",
    "MemoryRuns",
    "NoiseScale",
    "NotEnoughRunsError",
    "NothingFittedError",
    "Outlier",
    "PhaseRuns",
    "PooledPrior",
    "PoolingReport",
    "PriorForecast",
    "RunTable",
    "Standing",
    "Support",
    "SupportColumns",
    "UnfinishedCounts",
    "UnfinishedRuns",
    "UnknownRegressorError",
    "WorkloadSummary",
    "at_present",
    "compare",
    "dumps",
    "ernest_design",
    "ernest_features",
    "factory_summaries",
    "fit_portfolio",
    "joint_forecast",
    "loads",
    "mean_description",
    "nodes_for",
    "once",
    "prior_forecast",
    "summarise",
]
