"""Any scikit-learn regressor as a member of the portfolio."""

from typing import Any, Self

import numpy as np
from typing_extensions import override

from models.estimators.form_state import read_form, write_form
from models.estimators.translation import check_translation, translate
from models.features.layout import Layout
from models.regressor import PortfolioRegressor, State
from models.state.typed_json import read_number
from models.tables import FloatArray

_MIN_ROWS = 2


class ScikitRegressor(PortfolioRegressor):
    """A scikit-learn regressor as a candidate: fitted by scikit-learn, evaluated by numpy.

    The fitted estimator is translated into plain numbers (`models.estimators.translation`), and
    only these are stored and evaluated: artefacts hold no code, and serving never imports
    scikit-learn.

    Parameters
    ----------
    layout
        How to read the columns of X; the estimator gets its one-hot design.
    estimator
        The unfitted regressor, or a function that makes it (so that scikit-learn is imported only
        then, and not where a fitted portfolio is served).

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
        """Fit a clone of the estimator on the one-hot design and keep its form.

        Raises
        ------
        ValueError
            If the estimator refuses the data, or cannot be translated into plain data.
        """
        from sklearn.base import clone  # noqa: PLC0415 - heavy, and only such candidates need it

        if len(y) < _MIN_ROWS:
            raise ValueError(f"needs {_MIN_ROWS} configurations, found {len(y)}")
        is_instance = hasattr(self.estimator, "fit") and not isinstance(self.estimator, type)
        unfitted = clone(self.estimator) if is_instance else self.estimator()
        design = self.layout.design(X)
        self.center_ = float(np.median(y))
        fitted = unfitted.fit(design, y - self.center_)
        self.form_ = translate(fitted)
        check_translation(self.form_, fitted, design)
        return self

    @override
    def predict_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the estimator's forecasts, without a variance."""
        return self.form_(self.layout.design(X))[:, 0] + self.center_, None

    @override
    def to_state(self) -> State:
        """Return the form of the fitted estimator as data."""
        state = write_form(self.form_)
        return State({**state.values, "center": self.center_}, state.arrays)

    @override
    def load_state(self, state: State) -> None:
        """Restore the form of the fitted estimator from data.

        Raises
        ------
        ValueError
            If the numbers do not fit together.
        """
        self.center_ = read_number(state.values["center"])
        self.form_ = read_form(state, self.layout.n_numeric + sum(self.layout.levels))
