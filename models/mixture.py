"""The weighted mixture of a portfolio's members, prepared for speed: one pass for all of them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from models.boosting import ResidualTrees
from models.gaussian import GaussianProcess
from models.kernels import ServingKernel
from models.layout import Layout
from models.power_laws import MAX_TERMS, TERMS, FittedLaw, jacobian_factors, stack_coefficients
from models.regressor import PortfolioRegressor
from models.scaling_laws import ScalingLaw
from models.tables import FloatArray

_PART = 256
"""Questions answered at a time: their features fit a processor's cache."""

_BLOCK = 96
"""Rows of a quadratic form that stand together."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class RegimeModel:
    """How one kind of question is answered.

    `weights` and `residual_variances` (for members without a variance of their own) follow the
    order of the members; `curve` holds the calibrated half widths at the levels of
    `models.distribution`.
    """

    weights: FloatArray
    residual_variances: FloatArray
    curve: FloatArray


@dataclass(frozen=True, slots=True)
class _Component:
    """One law, or one process around its law, as a function of the shared features.

    With u the shared features and f the log duration of law `law`, the mean is
    ``f + slopes . u + center`` and the variance ``u' Q u + scatter + noise``, in the `columns` of
    u.
    """

    weight: float
    fitted: FittedLaw
    center: float
    process: GaussianProcess | None


@dataclass(frozen=True, slots=True)
class _Other:
    """A member of another kind, on top of a weighted mean of laws or of none."""

    weight: float
    own_variance: float
    member: PortfolioRegressor
    center: float
    below: Sequence[tuple[float, FittedLaw]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What a mixture says of n questions.

    `mean` and `variance` are those of the log duration, shape (n,); `shares` are the shares of the
    terms in each law, shape (n, n_laws, MAX_TERMS).
    """

    mean: FloatArray
    variance: FloatArray
    shares: FloatArray


class Mixtures:
    """The mixtures of all regimes, each made when it is first asked for.

    Parameters
    ----------
    layout
        How to read the columns of X.
    members
        The regressors by name.
    regimes
        Weights and residual variances of each kind of question.
    """

    def __init__(
        self,
        layout: Layout,
        members: Mapping[str, PortfolioRegressor],
        regimes: Mapping[str, RegimeModel],
    ) -> None:
        self._layout, self._members, self._regimes = layout, members, regimes
        self._made: dict[str, Mixture] = {}

    def of(self, regime: str) -> "Mixture":
        """Return the mixture that answers a kind of question."""
        mixture = self._made.get(regime)
        if mixture is None:
            mixture = Mixture(self._layout, self._members.values(), self._regimes[regime])
            self._made[regime] = mixture
        return mixture


class Mixture:
    """Answers one kind of question for all members at once.

    Laws and processes are functions of a few shared features: the correlations with the training
    rows and the derivatives of the laws. A mean is linear in them and a variance quadratic, so that
    the weighted sum of all variances is a single quadratic form. Members of any other kind are
    asked one by one.

    Parameters
    ----------
    layout
        How to read the columns of X.
    members
        The regressors; those without weight are left out.
    regime
        Their weights and residual variances.
    """

    def __init__(
        self,
        layout: Layout,
        members: Iterable[PortfolioRegressor],
        regime: RegimeModel,
    ) -> None:
        self._layout = layout
        self._others: list[_Other] = []
        self._components: list[_Component] = []
        weights, variances = regime.weights.tolist(), regime.residual_variances.tolist()
        for weight, own, member in zip(weights, variances, members, strict=True):
            if weight == 0:
                continue
            if isinstance(member, GaussianProcess):
                law = member.law_
                self._components.append(_Component(weight, law.laws_[0], law.center_, member))
            elif isinstance(member, ScalingLaw):
                self._components += [
                    _Component(weight * share, law, member.center_, None)
                    for share, law in zip(member.weights_.tolist(), member.laws_, strict=True)
                ]
            elif isinstance(member, ResidualTrees):
                below = member.law_
                shares = list(zip(below.weights_.tolist(), below.laws_, strict=True))
                self._others.append(_Other(weight, own, member.trees_, below.center_, shares))
            else:
                self._others.append(_Other(weight, own, member, 0.0, []))
        self._lay_out()

    def evaluate(self, X: FloatArray) -> Evaluation:
        """Return what the members say of each row, weighted."""
        if len(X) <= _PART:
            return self._part(X)
        parts = [self._part(X[start : start + _PART]) for start in range(0, len(X), _PART)]
        return Evaluation(
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.variance for part in parts]),
            np.concatenate([part.shares for part in parts]),
        )

    def term_shares(self, shares: FloatArray) -> FloatArray:
        """Return the share of each of `TERMS` in the duration, shape (n, n_terms).

        Laws of a single term say nothing about shares: they count only where there are no others.
        The shares of a row sum to 1; all are 0 without a law.
        """
        total: FloatArray = shares.reshape(len(shares), -1) @ self._telling
        return total

    def _lay_out(self) -> None:
        """Lay out the shared features u: correlations, then derivatives of the laws."""
        laws, kernels = _Distinct(_same_law), _Distinct(ServingKernel.is_same)
        which = [laws.index(item.fitted) for item in self._components]
        below = [[(share, laws.index(law)) for share, law in item.below] for item in self._others]
        self._laws: list[FittedLaw] = laws.items
        of_process = [
            None if item.process is None else kernels.index(item.process.kernel)
            for item in self._components
        ]
        self._kernels: list[ServingKernel] = kernels.items
        starts = np.cumsum([0, *(kernel.n_rows for kernel in self._kernels)])
        self._coefficients, self._effects = stack_coefficients(self._layout, self._laws)
        self._which_law = np.array(which, dtype=np.int64)
        self._telling = self._tell(which)
        self._below = np.zeros((len(self._laws), len(self._others)))
        for position, pairs in enumerate(below):
            for share, index in pairs:
                self._below[index, position] += share
        width, slots, factors, places = int(starts[-1]), [], [], []
        for index, law in enumerate(self._laws):
            slot, factor = jacobian_factors(self._layout, law.prior.terms)
            places.append(width + np.arange(len(slot)))
            slots.append(np.where(slot < 0, -1, MAX_TERMS * index + slot))
            factors.append(factor)
            width += len(slot)
        none = np.empty(0, dtype=np.int64)
        self._slots, self._factors = (
            np.concatenate([none, *slots]),
            np.concatenate([none, *factors]),
        )
        self._columns = []
        for law_index, kernel_index in zip(which, of_process, strict=True):
            columns = places[law_index]
            if kernel_index is not None:
                rows = np.arange(starts[kernel_index], starts[kernel_index + 1])
                columns = np.concatenate([rows, columns])
            self._columns.append(columns)
        self._collect(width)

    def _tell(self, which: Sequence[int]) -> FloatArray:
        """Return how much each term of each law counts for the share of that term."""
        every = list(zip(self._components, which, strict=True))
        telling = [pair for pair in every if len(pair[0].fitted.prior.terms) > 1] or every
        norm = sum(item.weight for item, _ in telling)
        counts: FloatArray = np.zeros((len(self._laws), MAX_TERMS, len(TERMS)))
        for item, law in telling:
            for slot, term in enumerate(item.fitted.prior.terms):
                counts[law, slot, TERMS.index(term)] += item.weight / norm
        return counts.reshape(-1, len(TERMS))

    def _collect(self, width: int) -> None:
        """Collect what the components add to the laws: slopes, form and constants."""
        items = self._components
        members: list[_Component | _Other] = [*items, *self._others]
        self._weights = np.array([item.weight for item in members])
        self._offsets = np.array([item.center for item in members])
        self._slopes = np.zeros((width, len(items)))
        whole: FloatArray = np.zeros((width, width))
        self._scatter = 0.0
        # A member with a variance of its own takes this one off again.
        self._noise = sum(item.weight * item.own_variance for item in self._others)
        for position, (item, columns) in enumerate(zip(items, self._columns, strict=True)):
            if item.process is None:
                form = item.fitted.covariance
                self._noise += item.weight * item.fitted.misfit
            else:
                form = item.process.variance_form()
                self._slopes[columns, position] = item.process.mean_slopes()
                self._scatter += item.weight * item.process.scatter
                self._noise += item.weight * item.process.noise
            whole[np.ix_(columns, columns)] += item.weight * form
        self._width, self._forms = width, _upper_blocks(whole)

    def _evaluate(self, X: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the base features of the laws, their log durations, and the shares of terms."""
        layout, n = self._layout, len(X)
        width = layout.n_numeric
        base: FloatArray = np.zeros((n, len(self._coefficients)))
        base[:, 0] = 1.0
        base[:, 1 : width + 1] = X[:, :width]
        rows, start = np.arange(n), width + 1
        for codes, count in zip(layout.codes(X).T, layout.levels, strict=True):
            base[rows, start + codes] = 1.0
            start += count
        base[:, -1] = X[:, width]
        logs = (base @ self._coefficients).reshape(n, len(self._laws), MAX_TERMS)
        top = logs.max(axis=2, keepdims=True)
        shares = np.exp(logs - top)
        total = shares.sum(axis=2, keepdims=True)
        shares /= total
        return base, (top + np.log(total))[:, :, 0] + base @ self._effects, shares

    def _features(self, X: FloatArray, base: FloatArray, shares: FloatArray) -> FloatArray:
        features = np.empty((len(X), self._width))
        start = 0
        if self._kernels:
            numeric, codes = self._layout.numeric(X), self._layout.codes(X)
        for kernel in self._kernels:
            features[:, start : start + kernel.n_rows] = kernel(numeric / kernel.scales, codes)
            start += kernel.n_rows
        flat = np.empty((len(X), MAX_TERMS * len(self._laws) + 1))
        flat[:, :-1] = shares.reshape(len(X), -1)
        flat[:, -1] = 1.0
        np.multiply(flat[:, self._slots], base[:, self._factors], out=features[:, start:])
        return features

    def _part(self, X: FloatArray) -> Evaluation:
        n, own = len(X), len(self._components)
        means: FloatArray = np.empty((n, own + len(self._others)))
        within, shares = np.zeros(n), np.zeros((n, 0, MAX_TERMS))
        if self._laws:
            base, logs, shares = self._evaluate(X)
            means[:, own:] = logs @ self._below
        if own:
            u = self._features(X, base, shares)
            means[:, :own] = logs[:, self._which_law] + u @ self._slopes
            left = np.full(n, self._scatter)
            for start, form in self._forms:
                rest = u[:, start:]
                left += np.vecdot(rest[:, : len(form)] @ form, rest)
            within = np.maximum(left, 0.0)
        for place, item in enumerate(self._others, own):
            mean, variance = item.member.predict_moments(X)
            means[:, place] = means[:, place] + mean if item.below else mean
            if variance is not None:
                within = within + item.weight * (variance - item.own_variance)
        means += self._offsets
        total, square = means @ self._weights, (means * means) @ self._weights
        spread = np.maximum(square - total * total, 0.0)
        return Evaluation(total, within + self._noise + spread, shares)


class _Distinct(Generic[Item]):
    """Items in the order of their first appearance, by a test of equality."""

    def __init__(self, is_same: Callable[[Item, Item], bool]) -> None:
        self.items: list[Item] = []
        self._is_same = is_same

    def index(self, item: Item) -> int:
        """Return the item's position, appended if it is new."""
        for index, known in enumerate(self.items):
            if self._is_same(known, item):
                return index
        self.items.append(item)
        return len(self.items) - 1


def _upper_blocks(form: FloatArray) -> list[tuple[int, FloatArray]]:
    """Return a symmetric quadratic form as blocks of rows, each from its diagonal on.

    With the part right of a diagonal block doubled they add up to the whole, at little more than
    half of its memory: that, not the arithmetic, is what one question costs.

    Examples
    --------
    >>> [(start, block.shape) for start, block in _upper_blocks(np.zeros((200, 200)))]
    [(0, (96, 200)), (96, (96, 104)), (192, (8, 8))]
    """
    blocks = []
    for start in range(0, len(form), _BLOCK):
        end = start + _BLOCK
        block = form[start:end, start:].copy()
        block[:, _BLOCK:] += form[end:, start:end].T
        blocks.append((start, block))
    return blocks


def _same_law(one: FittedLaw, other: FittedLaw) -> bool:
    return one.prior.terms == other.prior.terms and np.array_equal(one.theta, other.theta)
