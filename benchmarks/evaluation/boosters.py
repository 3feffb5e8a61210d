"""LightGBM's text form of trees like those of a portfolio: the floor of a load."""

import lightgbm
import numpy as np

from models import FittedPortfolio, FloatArray, RunTable


def leaves_of_trees(portfolio: FittedPortfolio) -> FloatArray:
    """Return the leaves of each tree of all members, shape (n_trees,)."""
    states = [member.to_state().arrays for member in portfolio.members.values()]
    return np.concatenate([arrays.get("trees.leaves", np.empty(0)) for arrays in states])


def booster_text(runs: RunTable, leaves: FloatArray) -> str:
    """Return the text of as many trees as a portfolio has, with as many leaves on average.

    Parameters
    ----------
    runs
        The runs on which the trees are grown.
    leaves
        Leaves of each tree of the portfolio, shape (n_trees,).
    """
    X = np.column_stack(list(runs.features.numeric.values()))
    parameters = {
        "num_leaves": max(2, round(float(leaves.mean()))) if len(leaves) else 2,
        "min_data_in_leaf": 2,
        "num_threads": 1,
        "verbosity": -1,
    }
    data = lightgbm.Dataset(X, label=np.log(runs.duration_seconds), params={"verbosity": -1})
    text: str = lightgbm.train(
        parameters, data, num_boost_round=max(len(leaves), 1)
    ).model_to_string()
    return text
