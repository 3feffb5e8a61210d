"""What every regressor of the portfolio promises, the scikit-learn adapter included."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostRegressor,
    BaggingRegressor,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.utils.validation import check_is_fitted

from models.candidates import CANDIDATES, Setting
from models.estimators.scikit import ScikitRegressor
from models.features.encoder import Encoder
from models.features.layout import Layout
from models.regressor import PortfolioRegressor
from models.runs.configurations import collapse
from models.tables import FloatArray
from tests.models.workloads import grid, make_runs

Builder = Callable[[Setting], PortfolioRegressor]


def _of(make: Callable[[], object]) -> Builder:
    return lambda setting: ScikitRegressor(setting.layout, make())


ESTIMATORS: dict[str, Callable[[], object]] = {
    "ridge": lambda: Ridge(alpha=0.01),
    "ridge of squares": lambda: make_pipeline(
        StandardScaler(), PolynomialFeatures(2), Ridge(alpha=0.01)
    ),
    "extra trees": lambda: ExtraTreesRegressor(20, random_state=0),
    "random forest": lambda: RandomForestRegressor(20, random_state=0),
    "gradient boosting": lambda: GradientBoostingRegressor(random_state=0),
    "neighbours": lambda: make_pipeline(StandardScaler(), KNeighborsRegressor(2)),
    "kernel ridge": lambda: KernelRidge(alpha=0.01, kernel="rbf", gamma=0.1),
    "bagged ridge": lambda: BaggingRegressor(Ridge(alpha=0.01), random_state=0),
}
BUILDERS: dict[str, Builder] = {
    **CANDIDATES,
    **{name: _of(make) for name, make in ESTIMATORS.items()},
    "ridge made on demand": lambda setting: ScikitRegressor(setting.layout, Ridge),
}


@pytest.fixture(scope="module")
def encoded() -> tuple[Layout, FloatArray, FloatArray, FloatArray]:
    sizes = (500, 1000, 2000, 4000)
    configurations = collapse(make_runs(grid((1, 2, 4, 8), sizes, repetitions=2)))
    encoder = Encoder.learn(configurations.features)
    X = encoder.encode(configurations.features).X
    return encoder.layout, X, configurations.log_duration, configurations.counts


@pytest.fixture(params=sorted(BUILDERS))
def builder(request: pytest.FixtureRequest) -> Builder:
    return BUILDERS[request.param]


Data = tuple[Layout, FloatArray, FloatArray, FloatArray]


def test_forecasts_are_finite_and_close_to_what_was_fitted(builder: Builder, encoded: Data) -> None:
    layout, X, y, counts = encoded

    mean, variance = builder(Setting(layout, 0.02, 16, 0)).fit(X, y, counts).predict_moments(X)

    assert np.isfinite(mean).all()
    assert variance is None or (variance > 0).all()
    assert np.abs(mean - y).mean() < 0.3


def test_clone_fits_to_the_same_forecasts(builder: Builder, encoded: Data) -> None:
    layout, X, y, counts = encoded
    regressor = builder(Setting(layout, 0.02, 16, 0))

    copy = clone(regressor)

    assert copy is not regressor
    np.testing.assert_array_equal(
        copy.fit(X, y, counts).predict(X), regressor.fit(X, y, counts).predict(X)
    )


def test_parameters_are_set_by_name_and_unknown_ones_refused(
    builder: Builder, encoded: Data
) -> None:
    regressor = builder(Setting(encoded[0], 0.02, 16, 0))

    regressor.set_params(layout=Layout(("workers",), (), ()))

    assert regressor.get_params()["layout"].roles == ("workers",)
    with pytest.raises(ValueError, match="no parameter 'colour'"):
        regressor.set_params(colour="red")


def test_forecast_before_the_fit_is_refused_as_scikit_learn_does(
    builder: Builder, encoded: Data
) -> None:
    layout, X, y, _ = encoded
    regressor = builder(Setting(layout, 0.02, 16, 0))

    with pytest.raises(NotFittedError, match=f"This {type(regressor).__name__} is not fitted"):
        regressor.predict(X)
    with pytest.raises(NotFittedError):
        regressor.score(X, y)
    with pytest.raises(NotFittedError):
        check_is_fitted(regressor)
    check_is_fitted(regressor.fit(X, y))


def test_state_carries_the_forecasts_exactly(builder: Builder, encoded: Data) -> None:
    layout, X, y, counts = encoded
    regressor = builder(Setting(layout, 0.02, 16, 0)).fit(X, y, counts)
    loaded = builder(Setting(layout, 0.5, 0, 0))

    loaded.load_state(regressor.to_state())

    np.testing.assert_array_equal(loaded.predict(X), regressor.predict(X))


def test_adding_a_constant_to_log_durations_adds_it_to_forecasts(
    builder: Builder, encoded: Data
) -> None:
    layout, X, y, counts = encoded
    setting = Setting(layout, 0.02, 16, 0)

    shifted = builder(setting).fit(X, y + 3.0, counts).predict(X)

    np.testing.assert_allclose(
        shifted, builder(setting).fit(X, y, counts).predict(X) + 3.0, atol=0.02
    )


def test_copy_for_a_fold_forecasts_alike(builder: Builder, encoded: Data) -> None:
    layout, X, y, counts = encoded
    regressor = builder(Setting(layout, 0.02, 16, 0)).fit(X, y, counts)

    again = regressor.refit_clone().fit(X, y, counts)

    np.testing.assert_allclose(again.predict(X), regressor.predict(X), atol=0.02)


def test_scikit_learn_cross_validates_it(builder: Builder, encoded: Data) -> None:
    layout, X, y, _ = encoded

    scores = cross_val_score(builder(Setting(layout, 0.02, 16, 0)), X, y, cv=3)

    assert np.isfinite(scores).all()


def test_one_row_and_many_rows_get_the_same_forecast(builder: Builder, encoded: Data) -> None:
    layout, X, y, counts = encoded
    regressor = builder(Setting(layout, 0.02, 16, 0)).fit(X, y, counts)

    single = np.array([regressor.predict(X[row : row + 1])[0] for row in range(len(X))])

    np.testing.assert_allclose(single, regressor.predict(X), rtol=0, atol=1e-9)


def test_values_that_never_repeat_are_matched_to_their_rows(builder: Builder) -> None:
    generator = np.random.default_rng(0)
    layout = Layout(("workers", "dataset_size"), (), ())
    X = np.column_stack([generator.normal(size=(30, 2)), np.zeros(30)])
    y = 5 - X[:, 0] + 0.7 * X[:, 1] + 0.3 * np.sin(2 * X[:, 0])
    regressor = builder(Setting(layout, 0.02, 0, 0)).fit(X, y)

    single = np.array([regressor.predict(X[row : row + 1])[0] for row in range(30)])

    np.testing.assert_allclose(single, regressor.predict(X), rtol=0, atol=1e-9)
    assert np.abs(single - y).mean() < 0.3


def test_trees_refuse_what_they_could_only_repeat(encoded: Data) -> None:
    layout, X, y, counts = encoded

    with pytest.raises(ValueError, match="needs 20 configurations, found 8"):
        CANDIDATES["boosted_trees"](Setting(layout, 0.02, 0, 0)).fit(X[:8], y[:8], counts[:8])


def test_estimator_that_is_no_plain_data_is_refused_by_name(encoded: Data) -> None:
    layout, X, y, _ = encoded

    with pytest.raises(ValueError, match="AdaBoostRegressor cannot be carried as plain data"):
        ScikitRegressor(layout, AdaBoostRegressor()).fit(X, y)
