"""Gradient-boosted regression trees on the log duration (LightGBM), one thread, deterministic."""

from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any, Self

import numpy as np
from typing_extensions import override

from models.features.layout import Layout
from models.laws.law_priors import TERMS
from models.laws.scaling_laws import ScalingLaw
from models.numerics.log_grid import on_log_grid
from models.regressor import PortfolioRegressor, State
from models.state.typed_json import read_number
from models.tables import FloatArray
from models.trees.lightgbm_text import read_trees
from models.trees.lookup import TreeArrays, TreeTables

MIN_TREE_CONFIGURATIONS = 20
"""Trees of fewer configurations would only repeat them."""

_FEW_ROUNDS, _MAX_OF_FEW, _ROUNDS = 120, 60, 200
"""Number of trees for few configurations, how many are few, and number of trees for more."""

_RESIDUAL_GRID = 2.0**-16
"""Residuals are multiples of this (1.5e-5 of a duration).

The optimum of a law differs by some 1e-10 between processors. Where splits gain nearly the same,
trees would amplify that to as much as .06 % of a forecast, so they see residuals without it."""

_TREE_FIELDS = fields(TreeArrays)


class BoostedTrees(PortfolioRegressor):
    """LightGBM on log seconds, with category codes as categorical features.

    Squared error in log space is squared relative error for small errors. Trees do not extrapolate:
    outside the measured range they repeat the nearest leaf.

    Parameters
    ----------
    layout
        How to read the columns of X.
    rounds
        Number of trees; None for 120 up to 60 configurations and 200 above.
    seed
        Seeds bagging and feature sampling.
    asked_once
        Answer by LightGBM itself and have no state. Converting trees into tables, which load and
        answer fast, takes longer than growing them, and a refit for a held-out set is asked once.

    References
    ----------
    Ke et al. (2017), LightGBM: a highly efficient gradient boosting decision tree, NeurIPS 30.
    """

    _sum: Callable[[FloatArray], Any]

    def __init__(
        self,
        layout: Layout,
        rounds: int | None = None,
        seed: int = 0,
        asked_once: bool = False,  # noqa: FBT001, FBT002 - an estimator's parameters are set by name
    ) -> None:
        self.layout, self.rounds, self.seed = layout, rounds, seed
        self.asked_once = asked_once

    @override
    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Grow the trees.

        Raises
        ------
        ValueError
            With fewer than 20 configurations: trees would only repeat them.
        """
        _check_size(y)
        import lightgbm  # noqa: PLC0415 - heavy, and only portfolios with trees need it

        self.center_ = float(np.median(y))
        codes = range(self.layout.n_numeric + 1, self.layout.n_columns)
        data = lightgbm.Dataset(
            X, label=y - self.center_, categorical_feature=list(codes), params={"verbosity": -1}
        )
        rounds = self.rounds or _rounds(len(y))
        # Otherwise the booster would be written as text and read again before it is returned.
        booster = lightgbm.train(
            self._parameters(len(y)), data, num_boost_round=rounds, keep_training_booster=True
        )
        self._sum = partial(booster.predict, num_threads=1)
        if not self.asked_once:
            self._use_trees(read_trees(booster.model_to_string()))
        return self

    @override
    def predict_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the mean log duration; trees have no variance of their own."""
        return np.asarray(self._sum(X), dtype=np.float64) + self.center_, None

    @override
    def refit_clone(self) -> Self:
        """Return an unfitted copy that is asked once."""
        return type(self)(**{**self.get_params(), "asked_once": True})

    @override
    def to_state(self) -> State:
        """Return the trees as numbers.

        Raises
        ------
        ValueError
            If they were grown to be asked once.
        """
        if self.asked_once:
            raise ValueError("Trees that are asked once have no state.")
        arrays = {f"trees.{field.name}": getattr(self.trees_, field.name) for field in _TREE_FIELDS}
        return State({"center": self.center_}, arrays)

    @override
    def load_state(self, state: State) -> None:
        """Restore trees from numbers; LightGBM itself is not needed."""
        self.center_ = read_number(state.values["center"])
        self._use_trees(
            TreeArrays(*(state.arrays[f"trees.{field.name}"] for field in _TREE_FIELDS))
        )

    def _use_trees(self, trees: TreeArrays) -> None:
        self.trees_ = trees
        self._sum = TreeTables(trees, self.layout.n_columns).predict

    def _parameters(self, n_configurations: int) -> dict[str, str | int | float | bool]:
        return {
            "objective": "regression",
            "learning_rate": 0.05,
            "num_leaves": 15,
            "min_data_in_leaf": int(np.clip(n_configurations / 20, 2, 10)),
            "feature_fraction": 0.8,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "lambda_l2": 0.5,
            "min_data_per_group": 5,
            "cat_smooth": 2.0,
            "num_threads": 1,
            "deterministic": True,
            "force_row_wise": True,
            "seed": self.seed,
            "verbosity": -1,
        }


class ResidualTrees(PortfolioRegressor):
    """LightGBM on the residuals of a sum of power laws: the law scales, the trees correct.

    It has half the rounds of `BoostedTrees`, since less is left to explain. Beyond the measured
    range the trees repeat their nearest correction while the law's trend goes on.

    Parameters
    ----------
    layout
        How to read the columns of X.
    law
        The law below the trees; a sum of four terms if None.
    seed
        Seeds bagging and feature sampling, and chooses the subset of large sets.
    asked_once
        As in `BoostedTrees`.

    References
    ----------
    Ke et al. (2017), LightGBM: a highly efficient gradient boosting decision tree, NeurIPS 30.
    """

    def __init__(
        self,
        layout: Layout,
        law: ScalingLaw | None = None,
        seed: int = 0,
        asked_once: bool = False,  # noqa: FBT001, FBT002 - an estimator's parameters are set by name
    ) -> None:
        self.layout, self.law, self.seed = layout, law, seed
        self.asked_once = asked_once

    @override
    def fit(self, X: FloatArray, y: FloatArray, sample_weight: FloatArray | None = None) -> Self:
        """Fit the law, then trees on its residuals.

        Raises
        ------
        ValueError
            With fewer than 20 configurations.
        """
        _check_size(y)
        self.law_ = self._new_law().fit(X, y)
        self.trees_ = BoostedTrees(self.layout, _rounds(len(y)) // 2, self.seed, self.asked_once)
        residuals = on_log_grid(y - self.law_.predict(X), _RESIDUAL_GRID)
        self.trees_.fit(X, residuals, sample_weight)
        return self

    @override
    def predict_moments(self, X: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the mean log duration, without a variance."""
        return self.law_.predict(X) + self.trees_.predict(X), None

    @override
    def refit_clone(self) -> Self:
        """Return an unfitted copy that keeps the law's templates and is asked once."""
        return type(self)(self.layout, self.law_.refit_clone(), self.seed, asked_once=True)

    @override
    def to_state(self) -> State:
        """Return law and trees as data."""
        law, trees = self.law_.to_state(), self.trees_.to_state()
        values = {f"law.{name}": value for name, value in law.values.items()}
        arrays = {f"law.{name}": array for name, array in law.arrays.items()}
        return State({**values, "trees_center": trees.values["center"]}, {**arrays, **trees.arrays})

    @override
    def load_state(self, state: State) -> None:
        """Restore law and trees from data."""
        self.law_ = self._new_law()
        self.law_.load_state(state.below("law."))
        self.trees_ = BoostedTrees(self.layout, seed=self.seed)
        self.trees_.load_state(State({"center": state.values["trees_center"]}, state.arrays))

    def _new_law(self) -> ScalingLaw:
        law = self.law or ScalingLaw(self.layout, TERMS, 1.0, seed=self.seed)
        return type(law)(**law.get_params())


def _rounds(n_configurations: int) -> int:
    return _FEW_ROUNDS if n_configurations <= _MAX_OF_FEW else _ROUNDS


def _check_size(y: FloatArray) -> None:
    if len(y) < MIN_TREE_CONFIGURATIONS:
        raise ValueError(f"needs {MIN_TREE_CONFIGURATIONS} configurations, found {len(y)}")
