"""The portfolio's list: which regressors compete, and how each is built."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from typing_extensions import override

from models.boosting import BoostedTrees, ResidualTrees
from models.gaussian import GaussianProcess
from models.layout import Layout
from models.power_laws import TERMS
from models.regressor import PortfolioRegressor, State, StateValue
from models.scaling_laws import LogLinearLaw, ScalingLaw
from models.tables import FloatArray


@dataclass(frozen=True, slots=True)
class Setting:
    """What a candidate is built for: the matrix, the noise of repetitions and the seed.

    `shape` holds scales and log hyper-parameters of an earlier process: later ones keep its
    correlations, so that a forecast computes them once for all.
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
"""Name -> constructor. A scikit-learn regressor joins with one line more: see `ScikitRegressor`."""

REGRESSOR_NAMES: tuple[str, ...] = tuple(CANDIDATES)


class ScikitRegressor(PortfolioRegressor):
    """Any scikit-learn regressor whose learned attributes are arrays and numbers, as a candidate.

    ``CANDIDATES["ridge"] = lambda setting: ScikitRegressor(setting.layout, Ridge())`` is all it
    takes. The artefact holds the learned attributes alone; loading sets them on a clone.

    Parameters
    ----------
    layout
        How to read the columns of X; the estimator sees its one-hot design.
    estimator
        The unfitted scikit-learn regressor.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> X = np.array([[np.log(w), float(w == 1)] for w in (1, 2, 4, 8)])
    >>> ridge = ScikitRegressor(Layout(("workers",), (), ()), Ridge(alpha=1e-6))
    >>> ridge.fit(X, 5 - X[:, 0]).predict(X[:1]).round(3).tolist()
    [5.0]
    """

    def __init__(self, layout: Layout, estimator: Any) -> None:
        self.layout, self.estimator = layout, estimator

    @override
    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit a clone of the estimator on the one-hot design."""
        from sklearn.base import clone  # noqa: PLC0415 - heavy, and only such candidates need it

        self.center_ = float(np.median(y))
        self.estimator_ = clone(self.estimator).fit(self.layout.design(X), y - self.center_)
        return self

    @override
    def predict_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the estimator's forecasts, without a variance."""
        raw = self.estimator_.predict(self.layout.design(X))
        return np.asarray(raw, dtype=np.float64) + self.center_, None

    @override
    def to_state(self) -> State:
        """Return the learned attributes.

        Raises
        ------
        ValueError
            If one of them is neither a number, an array of numbers nor a word.
        """
        arrays: dict[str, FloatArray] = {}
        words: dict[str, StateValue] = {}
        for name, value in vars(self.estimator_).items():
            if not name.endswith("_"):
                continue
            array = np.asarray(value)
            if value is None or isinstance(value, str):
                words[name] = value
            elif array.dtype.kind in "fiub":
                arrays[name] = array.astype(np.float64)
            else:
                raise ValueError(f"{name} of {type(self.estimator_).__name__} is not numeric.")
        return State({**words, "center": self.center_}, arrays)

    @override
    def load_state(self, state: State) -> None:
        """Set learned attributes on a clone of the estimator."""
        from sklearn.base import clone  # noqa: PLC0415 - heavy, and only such candidates need it

        self.center_ = float(str(state.values["center"]))
        self.estimator_ = clone(self.estimator)
        for name, array in state.arrays.items():
            setattr(self.estimator_, name, array if array.ndim else float(array))
        for name, word in state.values.items():
            if name != "center":
                setattr(self.estimator_, name, word)
