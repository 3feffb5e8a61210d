"""The interface of the portfolio's regressors: scikit-learn's conventions plus a state as data."""

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

from models.tables import FloatArray

Item = TypeVar("Item")
StateValue = str | float | int | bool | list[str] | list[float] | list[int] | None


@dataclass(frozen=True, slots=True)
class State:
    """Everything a fitted regressor is, as data: scalars and float arrays.

    `shared` caches what the regressors of one artefact derive from arrays that they have in common,
    so that each array is checked once.
    """

    values: Mapping[str, StateValue] = field(default_factory=dict)
    arrays: Mapping[str, FloatArray] = field(default_factory=dict)
    shared: dict[tuple[object, ...], Any] = field(default_factory=dict, compare=False)

    def below(self, prefix: str) -> "State":
        """Return the items whose names begin with a prefix, without the prefix."""
        return State(_below(prefix, self.values), _below(prefix, self.arrays), self.shared)


def _below(prefix: str, items: Mapping[str, Item]) -> dict[str, Item]:
    return {name[len(prefix) :]: item for name, item in items.items() if name.startswith(prefix)}


class Regressor(Protocol):
    """A regressor of log durations, in scikit-learn's conventions.

    `X` has the form that `models.features.layout.Layout` describes, `y` is the natural log of
    seconds and `sample_weight` the number of repetitions behind each row.
    """

    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Learn from configurations."""
        ...

    def predict(self, X: FloatArray) -> FloatArray:
        """Return forecasts of the log duration, shape (n,)."""
        ...

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002 - scikit-learn's signature
        """Return the constructor's arguments."""
        ...


@functools.cache
def _parameter_names(kind: type) -> tuple[str, ...]:
    return tuple(inspect.signature(kind).parameters)


class PortfolioRegressor(ABC):
    """Base of the library's own regressors; scikit-learn itself is not imported.

    A subclass stores its constructor's arguments under their own names, and its learned attributes
    end in an underscore, so that `sklearn.base.clone` and scikit-learn's searches work on it.
    """

    @abstractmethod
    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Learn from configurations."""

    def predict(self, X: FloatArray) -> FloatArray:
        """Return forecasts of the log duration, shape (n,).

        Raises
        ------
        NotFittedError
            scikit-learn's, if nothing was learned yet.
        """
        if not self._is_fitted():
            from sklearn.exceptions import NotFittedError  # noqa: PLC0415 - heavy

            name = type(self).__name__
            raise NotFittedError(f"This {name} is not fitted yet; call 'fit' before 'predict'.")
        return self.predict_moments(X)[0]

    def _is_fitted(self) -> bool:
        """Whether anything was learned, by the rule of `sklearn.utils.validation`."""
        return any(name.endswith("_") and not name.startswith("__") for name in vars(self))

    @abstractmethod
    def predict_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return mean and variance of the log duration of a new run, each of shape (n,).

        A method without a variance of its own returns None; its held-out squared error is used.
        """

    def covariance(self, A: FloatArray, B: FloatArray) -> FloatArray | None:  # noqa: ARG002 - for those that have one
        """Return the covariance of the log durations of two sets of rows, shape (n_a, n_b).

        It covers only what further runs could remove, not the noise of a run. None for a method
        without a joint distribution.
        """
        return None

    @property
    def run_variance(self) -> float | None:
        """Return the variance of one run that no further run removes, None if it has none."""
        return None

    @abstractmethod
    def to_state(self) -> State:
        """Return what was learned, as data."""

    @abstractmethod
    def load_state(self, state: State) -> None:
        """Restore what `to_state` returned; the constructor's arguments are those of the fit."""

    def refit_clone(self) -> Self:
        """Return an unfitted copy that keeps this fit's structure, for the held-out folds."""
        return type(self)(**self.get_params())

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002 - scikit-learn's signature
        """Return the constructor's arguments by name."""
        return {name: getattr(self, name) for name in _parameter_names(type(self))}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name.

        Raises
        ------
        ValueError
            If a name is not an argument of the constructor.
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}.")
            setattr(self, name, value)
        return self

    def score(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> float:
        """Return the coefficient of determination of the log durations."""
        from sklearn.metrics import r2_score  # noqa: PLC0415 - heavy, and only for model searches

        return float(r2_score(y, self.predict(X), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator, RegressorMixin  # noqa: PLC0415 - heavy

        tags = type("_Tags", (RegressorMixin, BaseEstimator), {})().__sklearn_tags__()
        return copy.copy(tags)
