"""A scikit-learn estimator that records the fits of the estimator in it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from trainfare_client.collectors.parameters import as_python_number
from trainfare_client.collectors.plain import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

    from trainfare_client.collectors.recording import RunOptions

_FITTING_METHODS: Final = frozenset({"fit_predict", "fit_transform"})
"""Methods that would fit without a record; a pipeline uses `fit` and `transform` instead."""


_LIGHTGBM: Final = "lightgbm"
_ALL_CORES: Final = frozenset({_LIGHTGBM, "xgboost"})
_OPENMP_PREFIX: Final = "HistGradientBoosting"
"""Estimators that take all cores if no `n_jobs` is given; LightGBM takes the physical ones."""


def _delegated(name: str) -> Any:
    """Return a method of the fitted estimator, available only if the estimator has it."""

    def call(self: Recorded, *arguments: Any, **options: Any) -> Any:
        check_is_fitted(self, "estimator_")
        return getattr(self.estimator_, name)(*arguments, **options)

    call.__name__ = name
    call.__doc__ = f"Return what the fitted estimator's `{name}` does."
    return available_if(_has(name))(call)


def _has(name: str) -> Callable[[Recorded], bool]:
    def check(self: Recorded) -> bool:
        return hasattr(vars(self).get("estimator_", self.estimator), name)

    return check


class Recorded(BaseEstimator):
    """Fits and predicts like the estimator in it, and records each `fit` as a run.

    Parameters
    ----------
    estimator
        The estimator to fit, in a clone, as in scikit-learn's meta-estimators.
    workload
        The workload's id.
    parameters
        Names of the estimator's parameters to record, such as `max_depth`; the forecast depends on
        them.
    options
        What else can be stated about the run; see `RunOptions`.

    Attributes
    ----------
    estimator_
        The fitted estimator.
    """

    def __init__(
        self,
        estimator: Any,
        workload: str,
        parameters: Sequence[str] = (),
        options: RunOptions | None = None,
    ) -> None:
        self.estimator = estimator
        self.workload = workload
        self.parameters = parameters
        self.options = options

    # Looked up by scikit-learn before a fit: a search needs `score`, a vote the probabilities.
    predict = _delegated("predict")
    predict_proba = _delegated("predict_proba")
    predict_log_proba = _delegated("predict_log_proba")
    decision_function = _delegated("decision_function")
    transform = _delegated("transform")
    inverse_transform = _delegated("inverse_transform")
    score = _delegated("score")
    score_samples = _delegated("score_samples")

    def fit(self, X: Any, y: Any = None, **fit_params: Any) -> Self:
        """Fit a clone of the estimator and deliver the run."""
        estimator = clone(self.estimator)
        options: RunOptions = {
            **_size_of(X),
            "workers": 1,
            "parameters": self._recorded_parameters(estimator.get_params()),
            **(self.options or {}),
        }
        with record(self.workload, **options):
            estimator.fit(X, y, **fit_params)
        self.estimator_ = estimator
        return self

    def _recorded_parameters(self, parameters: Mapping[str, Any]) -> dict[str, float | str]:
        recorded: dict[str, float | str] = {
            "cores": _cores(self.estimator, parameters.get("n_jobs"))
        }
        for name in self.parameters:
            value = as_python_number(parameters.get(name))
            if value is not None:
                recorded[name] = value if isinstance(value, (int, float)) else str(value)
        return recorded

    def __sklearn_tags__(self) -> Any:
        # For instance, the folds of a classifier are stratified.
        from sklearn.utils import get_tags  # since scikit-learn 1.6, which alone asks for tags

        return copy.deepcopy(get_tags(self.estimator))

    @property
    def _estimator_type(self) -> str:
        # What scikit-learn used before tags.
        estimator_type: str = self.estimator._estimator_type  # noqa: SLF001 - its protocol
        return estimator_type

    def __getattr__(self, name: str) -> Any:
        # classes_ and everything else is the fitted estimator's.
        fitted = self.__dict__.get("estimator_")
        if fitted is None or name.startswith("__") or name in _FITTING_METHODS:
            raise AttributeError(f"{type(self).__name__} has no {name!r} before it is fitted")
        return getattr(fitted, name)


def _size_of(X: Any) -> RunOptions:
    """Return the number of samples, where it is known: a vectorizer may read a generator."""
    # Sparse matrices have a shape but no length, lists the reverse.
    shape: Any = getattr(X, "shape", None)
    if shape:
        return {"dataset_size": shape[0]}
    return {"dataset_size": len(X)} if hasattr(X, "__len__") else {}


def _cores(estimator: Any, n_jobs: int | None) -> int:
    """Return how many of the cores that the process may use an estimator takes for `n_jobs`."""
    import joblib

    library = type(estimator).__module__.partition(".")[0]
    if not n_jobs and (
        library in _ALL_CORES or type(estimator).__name__.startswith(_OPENMP_PREFIX)
    ):
        return int(joblib.cpu_count(only_physical_cores=library == _LIGHTGBM))
    try:
        return int(joblib.effective_n_jobs(n_jobs))
    except (TypeError, ValueError):
        return 1  # the estimator refuses it
