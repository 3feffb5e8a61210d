"""Fitted scikit-learn estimators as forms: the learned numbers without the code."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from models.estimators.forms import (
    Activation,
    Affine,
    Beside,
    Chain,
    Columns,
    Form,
    Kernel,
    Neighbours,
    Powers,
    Scaled,
    Trees,
)
from models.tables import FloatArray

TOLERANCE = 1e-9
"""Largest difference between forecasts of form and estimator, relative to their spread."""


def translate(estimator: Any) -> Form:
    """Return a fitted scikit-learn estimator as a form.

    Supported are linear regressors of all kinds, trees, forests, gradient boosting, bagging,
    nearest neighbours, kernel and support vector regressors, neural networks, and pipelines,
    voting, stacking and parameter searches of these.

    Parameters
    ----------
    estimator
        A fitted scikit-learn regressor or transformer.

    Raises
    ------
    ValueError
        If the estimator's class is not supported.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> X, y = np.array([[1.0], [2.0], [4.0]]), np.array([1.0, 2.0, 4.0])
    >>> translate(Ridge(alpha=1e-9).fit(X, y))(X).round(6).ravel().tolist()
    [1.0, 2.0, 4.0]
    """
    for kind in type(estimator).__mro__:
        if kind.__name__ in _TRANSLATORS:
            return _TRANSLATORS[kind.__name__](estimator)
    if hasattr(estimator, "coef_") and hasattr(estimator, "intercept_"):
        return _linear(estimator)
    raise ValueError(f"{type(estimator).__name__} cannot be carried as plain data")


def check_translation(form: Form, estimator: Any, X: FloatArray) -> None:
    """Check that a form forecasts the same as its estimator, at the rows of X and between them.

    Nearest neighbours are not checked: ties share their weight here, whereas scikit-learn takes
    the first that it finds.

    Raises
    ------
    ValueError
        If it does not.
    """
    if _has_neighbours(form):
        return
    points = np.vstack([X, (X + X[::-1]) / 2, 1.5 * X + 0.1])
    expected = np.asarray(estimator.predict(points), dtype=np.float64).ravel()
    error = float(np.abs(form(points)[:, 0] - expected).max())
    if not error <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
        name = type(estimator).__name__
        raise ValueError(f"{name} cannot be carried as plain data: it would forecast otherwise")


def _has_neighbours(form: Form) -> bool:
    is_neighbours = isinstance(form, Neighbours)
    return is_neighbours or any(_has_neighbours(part) for part in getattr(form, "parts", ()))


def _linear(estimator: Any) -> Form:
    matrix = np.asarray(estimator.coef_, dtype=np.float64).reshape(1, -1).T
    return Affine(matrix, np.array([float(np.ravel(estimator.intercept_)[0])]))


def _pipeline(estimator: Any) -> Form:
    steps = [step for _, step in estimator.steps if step not in (None, "passthrough")]
    return Chain([translate(step) for step in steps])


def _best_of_search(estimator: Any) -> Form:
    return translate(estimator.best_estimator_)


def _robust(estimator: Any) -> Form:
    return translate(estimator.estimator_)


def _mean(forms: Sequence[Form], weights: Sequence[float] | None = None) -> Form:
    shares = np.ones(len(forms)) if weights is None else np.array(weights, dtype=np.float64)
    return Chain([Beside(forms), Affine((shares / shares.sum())[:, None], np.zeros(1))])


def _vote(estimator: Any) -> Form:
    weights = estimator.weights
    if weights is not None:
        pairs = zip(estimator.estimators, weights, strict=True)
        weights = [weight for (_, member), weight in pairs if member != "drop"]
    return _mean([translate(member) for member in estimator.estimators_], weights)


def _stack(estimator: Any) -> Form:
    forms = [translate(member) for member in estimator.estimators_]
    if estimator.passthrough:
        forms.append(Columns(np.arange(estimator.n_features_in_, dtype=np.float64)))
    return Chain([Beside(forms), translate(estimator.final_estimator_)])


def _bag(estimator: Any) -> Form:
    pairs = zip(estimator.estimators_features_, estimator.estimators_, strict=True)
    return _mean(
        [Chain([Columns(np.asarray(index, float)), translate(member)]) for index, member in pairs]
    )


def _join_trees(
    trees: Sequence[FloatArray], offset: float, divisor: float, *, is_single: bool = True
) -> Trees:
    """Join the nodes of trees, whose child indices are relative to the tree's first node."""
    sizes = [len(nodes) for nodes in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    nodes = np.vstack(trees)
    children = nodes[:, 2:4]
    children[:] = np.where(children >= 0, children + np.repeat(roots, sizes)[:, None], -1)
    return Trees(nodes, roots.astype(np.float64), offset, divisor, is_single)


def _nodes(estimator: Any, rate: float = 1.0) -> FloatArray:
    tree = estimator.tree_
    values = rate * tree.value[:, 0, 0]
    columns = [tree.feature, tree.threshold, tree.children_left, tree.children_right, values]
    return np.column_stack(columns).astype(np.float64)


def _tree(estimator: Any) -> Form:
    return _join_trees([_nodes(estimator)], 0.0, 1.0)


def _forest(estimator: Any) -> Form:
    trees = [_nodes(tree) for tree in estimator.estimators_]
    return _join_trees(trees, 0.0, float(len(trees)))


def _boosted(estimator: Any) -> Form:
    zero = np.zeros((1, estimator.n_features_in_))
    offset = 0.0
    if estimator.init_ != "zero":
        if type(estimator.init_).__name__ != "DummyRegressor":
            raise ValueError("gradient boosting cannot be carried with an estimator to start from")
        offset = float(estimator.init_.predict(zero)[0])
    rate = float(estimator.learning_rate)
    return _join_trees([_nodes(tree, rate) for tree in estimator.estimators_[:, 0]], offset, 1.0)


def _histogram_boosted(estimator: Any) -> Form:
    predictors = [stage[0].nodes for stage in estimator._predictors]  # noqa: SLF001 - no public name
    if any(nodes["is_categorical"].any() for nodes in predictors) or (
        type(estimator._loss.link).__name__ != "IdentityLink"  # noqa: SLF001 - as above
    ):
        raise ValueError("histogram boosting is carried with numbers and the identity link alone")
    trees = []
    for nodes in predictors:
        sides = [
            np.where(nodes["is_leaf"], -1.0, nodes[side].astype(np.float64))
            for side in ("left", "right")
        ]
        threshold = np.where(nodes["is_leaf"], 0.0, nodes["num_threshold"])
        feature = nodes["feature_idx"].astype(np.float64)
        trees.append(np.column_stack([feature, threshold, *sides, nodes["value"]]))
    offset = float(np.ravel(estimator._baseline_prediction)[0])  # noqa: SLF001 - as above
    return _join_trees(trees, offset, 1.0, is_single=False)


def _neighbours(estimator: Any) -> Form:
    power = {"manhattan": 1, "l1": 1, "euclidean": 2, "l2": 2, "minkowski": estimator.p}
    rows = np.asarray(estimator._fit_X, dtype=np.float64)  # noqa: SLF001 - no public name
    targets = np.asarray(estimator._y, dtype=np.float64).ravel()  # noqa: SLF001 - as above
    order = power.get(str(estimator.metric))
    if order not in (1, 2) or callable(estimator.weights):
        raise ValueError("neighbours are carried with Minkowski's distance, power 1 or 2, alone")
    by_distance = estimator.weights == "distance"
    return Neighbours(rows, targets, int(estimator.n_neighbors), int(order), by_distance)


def _kernel_ridge(estimator: Any) -> Form:
    if callable(estimator.kernel) or estimator.kernel == "precomputed":
        raise ValueError("a kernel of one's own cannot be carried")
    rows = np.asarray(estimator.X_fit_, dtype=np.float64)
    gamma = 1 / rows.shape[1] if estimator.gamma is None else float(estimator.gamma)
    weights = np.asarray(estimator.dual_coef_, dtype=np.float64).ravel()
    shift, degree = float(estimator.coef0), int(estimator.degree)
    # Kernel ridge knows the polynomial kernel by two names.
    name = "poly" if estimator.kernel == "polynomial" else str(estimator.kernel)
    return Kernel(rows, weights, 0.0, name, gamma, shift, degree)


def _support_vectors(estimator: Any) -> Form:
    if callable(estimator.kernel) or estimator.kernel == "precomputed":
        raise ValueError("a kernel of one's own cannot be carried")
    return Kernel(
        np.asarray(estimator.support_vectors_, dtype=np.float64),
        np.asarray(estimator.dual_coef_, dtype=np.float64).ravel(),
        float(estimator.intercept_[0]),
        str(estimator.kernel),
        float(estimator._gamma),  # noqa: SLF001 - no public name
        float(estimator.coef0),
        int(estimator.degree),
    )


def _network(estimator: Any) -> Form:
    parts: list[Form] = []
    for matrix, offset in zip(estimator.coefs_, estimator.intercepts_, strict=True):
        layer = Affine(np.asarray(matrix, dtype=np.float64), np.asarray(offset, dtype=np.float64))
        parts += [layer, Activation(str(estimator.activation))]
    return Chain([*parts[:-1], Activation(str(estimator.out_activation_))])


def _scaler(estimator: Any) -> Form:
    n = int(estimator.n_features_in_)
    center = next(
        (
            value
            for value in (getattr(estimator, name, None) for name in ("center_", "mean_"))
            if value is not None
        ),
        np.zeros(n),
    )
    is_centred = getattr(estimator, "with_mean", getattr(estimator, "with_centering", True))
    scale = np.ones(n) if estimator.scale_ is None else estimator.scale_
    start = np.asarray(center, dtype=np.float64) if is_centred else np.zeros(n)
    return Scaled(start, np.asarray(scale, dtype=np.float64))


def _range_scaler(estimator: Any) -> Form:
    if estimator.clip:
        raise ValueError("a scaler that clips cannot be carried")
    matrix = np.diag(np.asarray(estimator.scale_, dtype=np.float64))
    return Affine(matrix, np.asarray(estimator.min_, dtype=np.float64))


def _components(estimator: Any) -> Form:
    matrix = np.asarray(estimator.components_, dtype=np.float64).T
    if estimator.whiten:
        matrix = matrix / np.sqrt(estimator.explained_variance_)
    return Affine(matrix, -np.asarray(estimator.mean_, dtype=np.float64) @ matrix)


def _powers(estimator: Any) -> Form:
    return Powers(np.asarray(estimator.powers_, dtype=np.float64))


def _constant(estimator: Any) -> Form:
    offset = np.ravel(np.asarray(estimator.constant_, dtype=np.float64))
    return Affine(np.zeros((int(estimator.n_features_in_), 1)), offset)


_TRANSLATORS: Mapping[str, Callable[[Any], Form]] = {
    "Pipeline": _pipeline,
    "BaseSearchCV": _best_of_search,
    "RANSACRegressor": _robust,
    "VotingRegressor": _vote,
    "StackingRegressor": _stack,
    "BaggingRegressor": _bag,
    "DecisionTreeRegressor": _tree,
    "ForestRegressor": _forest,
    "GradientBoostingRegressor": _boosted,
    "HistGradientBoostingRegressor": _histogram_boosted,
    "KNeighborsRegressor": _neighbours,
    "KernelRidge": _kernel_ridge,
    "BaseLibSVM": _support_vectors,
    "MLPRegressor": _network,
    "StandardScaler": _scaler,
    "RobustScaler": _scaler,
    "MaxAbsScaler": _scaler,
    "MinMaxScaler": _range_scaler,
    "PCA": _components,
    "PolynomialFeatures": _powers,
    "DummyRegressor": _constant,
}
"""By the name of the class or a base class, so that scikit-learn need not be imported."""
