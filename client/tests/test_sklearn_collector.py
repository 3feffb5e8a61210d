"""The scikit-learn wrapper, whose framework the service's environment holds too."""

import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import joblib
import lightgbm
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.cluster import KMeans
from sklearn.ensemble import (
    HistGradientBoostingRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from trainfare_client import Client, ClientSettings
from trainfare_client.collectors.sklearn import Recorded, _cores
from trainfare_client.spool import FlushReport, Spool


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """A classifier whose runs wait in a spool."""
    settings = ClientSettings(spool=tmp_path / "spool.jsonl", offline=True)
    return Recorded(LogisticRegression(), "classes", ["C"], {"settings": settings, "quiet": True})


def _sorted_classes() -> tuple[Any, Any]:
    """Return three classes one after another: folds that are not stratified lack some."""
    y = np.repeat([0, 1, 2], 10)
    X = np.random.default_rng(1).normal(size=(30, 2)) + y[:, None]
    return X, y


@pytest.mark.lengthy
def test_clone_of_the_wrapper_records_its_own_fits(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    X = np.arange(12.0).reshape(6, 2)
    options = {"settings": settings, "quiet": True}
    wrapped = Recorded(Ridge(alpha=0.5), workload, ["alpha", "solver", "copy_X"], options)  # type: ignore[arg-type] # as in a script

    fitted = clone(wrapped).fit(X, X.sum(axis=1))
    (run,) = client.runs.all(workload)

    assert not hasattr(wrapped, "coef_")
    assert fitted.coef_.shape == (2,)
    assert run["parameters"] == {"alpha": 0.5, "solver": "auto", "copy_X": "true", "cores": 1}


def test_sparse_matrices_and_numbers_of_numpy_are_told_as_they_are(
    client: Client, settings: ClientSettings, workload: str
) -> None:
    X = sparse.csr_matrix(np.arange(12.0).reshape(6, 2))
    options = {"settings": settings, "quiet": True}
    ridge = Ridge(max_iter=np.int64(7))

    Recorded(ridge, workload, ["max_iter"], options).fit(X, np.arange(6.0))  # type: ignore[arg-type] # as in a script
    (run,) = client.runs.all(workload)

    assert run["work"]["dataset_size"] == 6
    assert run["parameters"] == {"max_iter": 7, "cores": 1}


@pytest.mark.parametrize(("kind", "work"), [(list, {"dataset_size": 2}), (iter, {})])
def test_texts_are_counted_unless_they_come_from_a_generator(
    kind: Callable[[list[str]], Iterable[str]], work: dict[str, int], tmp_path: Path
) -> None:
    settings = ClientSettings(spool=tmp_path / "spool.jsonl", offline=True)
    words = Recorded(CountVectorizer(), "words", options={"settings": settings, "quiet": True})

    words.fit(kind(["red blue", "blue green"]))
    (run,) = Spool(settings.spool).take(FlushReport()) or []

    assert sorted(words.vocabulary_) == ["blue", "green", "red"]
    assert run["work"] == work


def test_cores_are_those_that_the_estimator_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        joblib, "cpu_count", lambda *, only_physical_cores: 3 if only_physical_cores else 6
    )

    assert _cores(Ridge(), None) == 1
    assert _cores(Ridge(), 3) == 3
    assert _cores(Ridge(), 0) == 1
    assert _cores(HistGradientBoostingRegressor(), None) == 6
    assert _cores(lightgbm.LGBMRegressor(), None) == 3
    assert _cores(lightgbm.LGBMRegressor(), 2) == 2


def test_all_cores_are_those_that_the_process_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")

    assert _cores(Ridge(), -1) == 1


def test_scores_are_those_of_the_estimator_itself(recorded: Recorded, tmp_path: Path) -> None:
    X, y = _sorted_classes()

    scores = cross_val_score(recorded, X, y)

    np.testing.assert_array_equal(scores, cross_val_score(LogisticRegression(), X, y))
    assert Spool(tmp_path / "spool.jsonl").waiting() == 5


@pytest.mark.parametrize("scoring", ["roc_auc_ovr", "neg_log_loss"])
def test_scorers_find_the_probabilities(scoring: str, recorded: Recorded) -> None:
    X, y = _sorted_classes()

    scores = cross_val_score(recorded, X, y, scoring=scoring, error_score="raise")

    plain = cross_val_score(LogisticRegression(), X, y, scoring=scoring)
    np.testing.assert_array_equal(scores, plain)


def test_search_goes_over_the_estimators_parameters_in_a_pipeline_too(recorded: Recorded) -> None:
    X, y = _sorted_classes()
    grid = {"recorded__estimator__C": [0.01, 1.0]}

    search = GridSearchCV(make_pipeline(StandardScaler(), recorded), grid, cv=3).fit(X, y)

    plain = make_pipeline(StandardScaler(), LogisticRegression())
    expected = GridSearchCV(plain, {"logisticregression__C": [0.01, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ == expected.best_score_
    assert pickle.loads(pickle.dumps(search)).score(X, y) == expected.score(X, y)


@pytest.mark.parametrize("ensemble", [VotingClassifier, StackingClassifier])
def test_ensembles_take_the_wrapper_for_what_it_holds(ensemble: Any, recorded: Recorded) -> None:
    X, y = _sorted_classes()
    fitted = ensemble([("a", recorded), ("b", LogisticRegression(C=0.1))]).fit(X, y)
    plain = ensemble([("a", LogisticRegression()), ("b", LogisticRegression(C=0.1))]).fit(X, y)

    np.testing.assert_array_equal(fitted.predict(X), plain.predict(X))


def test_wrapper_is_of_its_estimators_kind_and_has_its_methods_alone(recorded: Recorded) -> None:
    ridge = Recorded(Ridge(), "w")

    assert is_classifier(recorded)
    assert is_regressor(ridge)
    assert hasattr(recorded, "predict_proba")
    assert not hasattr(ridge, "predict_proba")
    with pytest.raises(NotFittedError):
        ridge.predict(np.zeros((2, 2)))


def test_fit_that_would_not_be_recorded_is_not_there(recorded: Recorded) -> None:
    clusters = Recorded(KMeans(2, n_init=1), "clusters", options=recorded.options)

    clusters.fit(np.arange(8.0).reshape(4, 2))

    assert not hasattr(clusters, "fit_predict")
    assert clusters.n_features_in_ == 2
