"""The candidates of the portfolio: which regressors compete, and how each is built."""

from collections.abc import Callable
from dataclasses import dataclass

from models.features.layout import Layout
from models.laws.law_priors import TERMS
from models.laws.scaling_laws import LogLinearLaw, ScalingLaw
from models.processes.gaussian import GaussianProcess
from models.regressor import PortfolioRegressor
from models.trees.boosting import BoostedTrees, ResidualTrees


@dataclass(frozen=True, slots=True)
class Setting:
    """What a candidate is built with: the matrix layout, the noise of repetitions and the seed.

    `shape` holds the scales and log hyper-parameters of a process fitted earlier; later processes
    keep its correlations, so that a forecast computes them once for all of them.
    """

    layout: Layout
    noise_sd: float
    noise_dof: int
    seed: int
    shape: tuple[tuple[float, ...], tuple[float, ...]] | None = None


def _full_law(setting: Setting) -> ScalingLaw:
    return ScalingLaw(setting.layout, TERMS, 1.0, seed=setting.seed)


def _tight_law(setting: Setting) -> ScalingLaw:
    return ScalingLaw(setting.layout, seed=setting.seed)


def _process(setting: Setting, law: ScalingLaw | None, *, held: bool = False) -> GaussianProcess:
    return GaussianProcess(
        setting.layout,
        law,
        held=held,
        noise_sd=setting.noise_sd,
        noise_dof=setting.noise_dof,
        start=setting.shape,
        shape_fixed=setting.shape is not None,
        seed=setting.seed,
    )


CANDIDATES: dict[str, Callable[[Setting], PortfolioRegressor]] = {
    "scaling_law": _tight_law,
    "log_linear": lambda setting: LogLinearLaw(setting.layout, seed=setting.seed),
    "gaussian_process": lambda setting: _process(setting, None),
    "scaling_process": lambda setting: _process(setting, _full_law(setting)),
    "physics_process": lambda setting: _process(setting, _tight_law(setting)),
    "held_process": lambda setting: _process(setting, _full_law(setting), held=True),
    "residual_trees": lambda setting: ResidualTrees(setting.layout, seed=setting.seed),
    "boosted_trees": lambda setting: BoostedTrees(setting.layout, seed=setting.seed),
}
"""Name -> constructor. One more line adds a scikit-learn regressor: `models.estimators.scikit`."""

REGRESSOR_NAMES: tuple[str, ...] = tuple(CANDIDATES)
