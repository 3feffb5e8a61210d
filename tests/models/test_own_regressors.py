"""Regressors that somebody adds: the page's ten lines, and every estimator that forms carry."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import (
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
    StackingRegressor,
    VotingRegressor,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import (
    BayesianRidge,
    HuberRegressor,
    Lasso,
    LinearRegression,
    RANSACRegressor,
    Ridge,
)
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    PolynomialFeatures,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVR, NuSVR
from sklearn.tree import DecisionTreeRegressor
from typing_extensions import override

from models import FeatureTable, NothingFittedError, dumps, loads
from models.candidates import CANDIDATES
from models.estimators.form_state import read_form, write_form
from models.estimators.forms import Form
from models.estimators.translation import check_translation, translate
from tests.models.workloads import fit, grid, make_runs

_PAGE = Path(__file__).parents[2] / "docs" / "regressors" / "your-own.md"
_GENERATOR = np.random.default_rng(0)
_X = np.column_stack([_GENERATOR.normal(size=(60, 3)), _GENERATOR.integers(0, 2, 60)])
_Y = 2 * _X[:, 0] + np.sin(2 * _X[:, 1]) + _X[:, 3] + 0.1 * _GENERATOR.normal(size=60)
_QUESTIONS = _GENERATOR.normal(size=(300, 4))

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "linear": LinearRegression,
    "lasso": lambda: Lasso(0.01),
    "bayesian ridge": BayesianRidge,
    "huber": HuberRegressor,
    "consensus": lambda: RANSACRegressor(random_state=0),
    "constant": DummyRegressor,
    "tree": lambda: DecisionTreeRegressor(random_state=0),
    "random forest": lambda: RandomForestRegressor(20, random_state=0),
    "extra trees": lambda: ExtraTreesRegressor(20, random_state=0),
    "gradient boosting": lambda: GradientBoostingRegressor(random_state=0),
    "gradient boosting from zero": lambda: GradientBoostingRegressor(init="zero", random_state=0),
    "histogram boosting": lambda: HistGradientBoostingRegressor(random_state=0),
    "bagged subsets": lambda: BaggingRegressor(Ridge(), max_features=0.5, random_state=0),
    "nearest": lambda: KNeighborsRegressor(3),
    "nearest by distance": lambda: KNeighborsRegressor(3, weights="distance", p=1),
    "kernel ridge": lambda: KernelRidge(kernel="laplacian", alpha=0.1),
    "kernel ridge, linear": lambda: KernelRidge(alpha=0.1),
    "kernel ridge, polynomial": lambda: KernelRidge(kernel="polynomial", alpha=0.1),
    "support vectors": SVR,
    "support vectors, polynomial": lambda: NuSVR(kernel="poly"),
    "support vectors, sigmoid": lambda: SVR(kernel="sigmoid", gamma=0.1),
    "network": lambda: MLPRegressor(
        hidden_layer_sizes=(3, 2),
        activation="tanh",
        solver="lbfgs",
        alpha=1,
        max_iter=5000,
        random_state=0,
    ),
    "logistic network": lambda: MLPRegressor(
        hidden_layer_sizes=(4,),
        activation="logistic",
        solver="lbfgs",
        max_iter=5000,
        random_state=0,
    ),
    "small network": lambda: MLPRegressor(
        hidden_layer_sizes=(3,), solver="lbfgs", max_iter=5000, random_state=0
    ),
    "standardised ridge": lambda: make_pipeline(StandardScaler(), Ridge()),
    "squares": lambda: make_pipeline(
        RobustScaler(with_centering=False), PolynomialFeatures(2), Ridge()
    ),
    "components": lambda: make_pipeline(MinMaxScaler(), PCA(2, whiten=True), SVR()),
    "scaled": lambda: make_pipeline(MaxAbsScaler(), "passthrough", KNeighborsRegressor()),
    "vote": lambda: VotingRegressor(
        [("a", Ridge()), ("b", DecisionTreeRegressor(random_state=0)), ("c", "drop")],
        weights=[1, 2, 5],
    ),
    "stack": lambda: StackingRegressor(
        [("a", Ridge()), ("b", DecisionTreeRegressor(random_state=0))], passthrough=True
    ),
    "search": lambda: GridSearchCV(Ridge(), {"alpha": [0.1, 1.0]}),
}


@pytest.fixture(params=sorted(ESTIMATORS))
def fitted(request: pytest.FixtureRequest) -> tuple[Form, Any]:
    estimator = ESTIMATORS[request.param]()
    estimator.fit(_X, _Y)
    return translate(estimator), estimator


def test_form_forecasts_as_its_estimator(fitted: tuple[Form, Any]) -> None:
    form, estimator = fitted

    found = form(_QUESTIONS)[:, 0]

    expected = estimator.predict(_QUESTIONS)
    np.testing.assert_allclose(found, np.ravel(expected), rtol=0, atol=1e-11)
    check_translation(form, estimator, _X)


def test_form_read_back_forecasts_the_same(fitted: tuple[Form, Any]) -> None:
    form, _ = fitted

    again = read_form(write_form(form), 4)

    np.testing.assert_array_equal(again(_QUESTIONS), form(_QUESTIONS))


def test_one_row_is_answered_as_among_many(fitted: tuple[Form, Any]) -> None:
    form, _ = fitted

    alone = np.vstack([form(_QUESTIONS[row : row + 1]) for row in range(5)])

    np.testing.assert_allclose(alone, form(_QUESTIONS)[:5], rtol=0, atol=1e-11)


def test_neighbours_at_the_same_distance_share_the_last_place() -> None:
    X, y = np.array([[0.0], [1.0], [-1.0], [5.0]]), np.array([1.0, 2.0, 4.0, 9.0])

    form = translate(KNeighborsRegressor(2).fit(X, y))

    assert form(np.array([[0.0]]))[0, 0] == pytest.approx((1 + (2 + 4) / 2) / 2)


class _Shifted(Ridge):  # type: ignore[misc]  # scikit-learn has no types
    @override
    def predict(self, X: Any) -> Any:
        return super().predict(X) + 1.0


@pytest.mark.parametrize(
    ("estimator", "reason"),
    [
        (GradientBoostingRegressor(init=Ridge()), "an estimator to start from"),
        (HistGradientBoostingRegressor(loss="poisson"), "identity link"),
        (HistGradientBoostingRegressor(categorical_features=[3]), "numbers"),
        (KNeighborsRegressor(metric="chebyshev"), "power 1 or 2"),
        (KernelRidge(kernel=lambda a, b: float(a @ b)), "of one's own"),
        (SVR(kernel=lambda a, b: a @ b.T), "of one's own"),
        (make_pipeline(MinMaxScaler(clip=True), Ridge()), "clips"),
        (_Shifted(), "would forecast otherwise"),
    ],
)
def test_what_no_form_carries_is_refused(estimator: Any, reason: str) -> None:
    y = np.exp(_Y)
    estimator.fit(_X, y)

    with pytest.raises(ValueError, match=reason):
        check_translation(translate(estimator), estimator, _X)


@pytest.fixture
def lines() -> Iterator[str]:
    block = re.search(r"```python\n(.*?)```", _PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    yield block.group(1)
    CANDIDATES.pop("extra_trees", None)


@pytest.mark.lengthy
def test_ten_lines_of_the_page_add_a_regressor(lines: str) -> None:
    runs = make_runs(grid((1, 2, 4, 8), (1000, 2000, 4000)))
    questions = make_runs(grid((1, 3, 16))).features

    exec(lines, {"CANDIDATES": CANDIDATES})

    assert len([line for line in lines.splitlines() if line.strip()]) <= 10
    every, alone = fit(runs), fit(runs, regressors=["extra_trees"])
    assert "extra_trees" in [candidate.regressor for candidate in every.report.candidates]
    for portfolio in (every, alone):
        loaded = loads(dumps(portfolio))
        assert dumps(loaded) == dumps(portfolio)
        np.testing.assert_array_equal(
            loaded.predict(questions).interval(0.9), portfolio.predict(questions).interval(0.9)
        )


@pytest.mark.lengthy
def test_added_regressor_is_served_without_scikit_learn(lines: str) -> None:
    exec(lines, {"CANDIDATES": CANDIDATES})
    artefact = dumps(fit(make_runs(grid()), regressors=["extra_trees"]))
    program = f"""
import sys
import numpy as np
from models import FeatureTable, loads
from models.candidates import CANDIDATES
{lines}
portfolio = loads(sys.stdin.buffer.read())
forecast = portfolio.predict(FeatureTable({{"workers": np.array([4.0, 32.0])}}, {{}}, 2))
assert np.isfinite(forecast.interval(0.9)).all()
assert not {{"sklearn", "scipy", "joblib"}} & set(sys.modules)
"""

    done = subprocess.run(
        [sys.executable, "-c", program], input=artefact, capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr.decode()


def test_estimator_that_cannot_be_carried_fails_by_name_and_the_others_go_on(lines: str) -> None:
    runs = make_runs(grid())
    exec(
        lines.replace("ExtraTreesRegressor", "AdaBoostRegressor")
        .replace("min_samples_leaf=2, random_state=0", "")
        .replace("100, ", ""),
        {"CANDIDATES": CANDIDATES},
    )

    portfolio = fit(runs, regressors=["extra_trees", "log_linear"])

    failed = portfolio.report.failed_candidates
    assert failed == {"extra_trees": "AdaBoostRegressor cannot be carried as plain data"}
    with pytest.raises(NothingFittedError, match="AdaBoostRegressor"):
        fit(runs, regressors=["extra_trees"])
    assert portfolio.predict(FeatureTable({"workers": np.ones(1)}, {}, 1)).median()[0] > 0
