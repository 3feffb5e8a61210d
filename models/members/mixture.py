"""The weighted mixture of a portfolio's members, prepared to evaluate all of them in one pass."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from models.features.layout import Layout
from models.laws.law_priors import MAX_TERMS, TERMS, has_deviations
from models.laws.power_laws import FittedLaw, jacobian_factors, stack_coefficients
from models.laws.scaling_laws import ScalingLaw
from models.members.regime_model import RegimeModel
from models.numerics.quadratic_forms import LevelForms, upper_blocks
from models.processes.gaussian import GaussianProcess
from models.processes.kernels import PART, ServingKernel
from models.regressor import PortfolioRegressor
from models.tables import FloatArray
from models.trees.boosting import ResidualTrees

_FEW_LEVELS = 24
"""Up to this many levels, multiplying indicators is faster than looking levels up."""

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class _Component:
    """One law, or one process around its law, as a function of the shared features.

    With u the shared features, which include the log duration of its law, the mean is
    ``slopes . u + center`` and the variance ``u' Q u + scatter + noise``.
    """

    weight: float
    fitted: FittedLaw
    center: float
    process: GaussianProcess | None


@dataclass(frozen=True, slots=True)
class _Other:
    """A member of another kind, on top of a weighted mean of laws if it has any."""

    weight: float
    own_variance: float
    member: PortfolioRegressor
    center: float
    below: Sequence[tuple[float, FittedLaw]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A mixture's answers to n questions.

    `mean` and `variance` are those of the log duration, shape (n,); `shares` are the shares of the
    terms in each law, shape (n, n_laws, MAX_TERMS).
    """

    mean: FloatArray
    variance: FloatArray
    shares: FloatArray


class Mixtures:
    """The mixtures of all regimes, each built when it is first used.

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
        self._mixtures: dict[str, Mixture] = {}

    def of(self, regime: str) -> "Mixture":
        """Return the mixture that answers a kind of question."""
        mixture = self._mixtures.get(regime)
        if mixture is None:
            mixture = Mixture(self._layout, self._members.values(), self._regimes[regime])
            self._mixtures[regime] = mixture
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

    Attributes
    ----------
    law_weights
        Weight of each law among all laws, shape (n_laws,).
    noise
        Variance of a run that no measurement removes.
    """

    def __init__(
        self,
        layout: Layout,
        members: Collection[PortfolioRegressor],
        regime: RegimeModel,
    ) -> None:
        self._layout = layout
        self.noise = regime.noise([member.run_variance for member in members])
        self._others: list[_Other] = []
        self._components: list[_Component] = []
        weights, variances = regime.weights.tolist(), regime.residual_variances.tolist()
        for weight, variance, member in zip(weights, variances, members, strict=True):
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
                base = member.law_
                laws = list(zip(base.weights_.tolist(), base.laws_, strict=True))
                self._others.append(_Other(weight, variance, member.trees_, base.center_, laws))
            else:
                self._others.append(_Other(weight, variance, member, 0.0, []))
        self._lay_out()

    def evaluate(self, X: FloatArray) -> Evaluation:
        """Return the weighted answers of the members to each row."""
        width = self._layout.n_numeric
        numeric, codes = X[:, :width], X[:, width + 1 :]
        if len(X) <= PART:
            return self._answer(X, [kernel.of_unscaled(numeric, codes) for kernel in self._kernels])
        kernel_parts = [kernel.of_many_unscaled(numeric, codes).parts() for kernel in self._kernels]
        parts = [
            self._answer(X[start : start + PART], [next(blocks) for blocks in kernel_parts])
            for start in range(0, len(X), PART)
        ]
        return Evaluation(
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.variance for part in parts]),
            np.concatenate([part.shares for part in parts]),
        )

    def term_shares(self, shares: FloatArray) -> FloatArray:
        """Return the share of each of `TERMS` in the duration, shape (n, n_terms).

        Laws of a single term say nothing about shares, so they count only where there are no
        others. The shares of a row sum to 1; all are 0 without a law.
        """
        total: FloatArray = shares.reshape(len(shares), -1) @ self._term_weights
        return total

    def exponents(self, column: int) -> FloatArray:
        """Return a column's exponents in each term of each law, shape (n_laws, MAX_TERMS)."""
        exponents: FloatArray = self._coefficients[1 + column, : MAX_TERMS * len(self._laws)]
        return exponents.reshape(-1, MAX_TERMS)

    def _lay_out(self) -> None:
        """Lay out the shared features u: correlations, derivatives of laws, laws, others, 1."""
        laws, kernels = _Distinct(_same_law), _Distinct(ServingKernel.is_same)
        # Laws below a process come first, so that those paired with correlations are contiguous.
        for item in self._components:
            if item.process is not None:
                laws.index(item.fitted)
        self._n_paired = len(laws.items)
        law_ids = [laws.index(item.fitted) for item in self._components]
        bases = [[(share, laws.index(law)) for share, law in item.below] for item in self._others]
        kernel_ids = [
            None if item.process is None else kernels.index(item.process.kernel)
            for item in self._components
        ]
        self._laws: list[FittedLaw] = laws.items
        self._kernels: list[ServingKernel] = kernels.items
        self._starts = np.cumsum([0, *(kernel.n_rows for kernel in self._kernels)]).tolist()
        self._coefficients = np.hstack(stack_coefficients(self._layout, self._laws))
        self._indicators = [np.eye(count).tolist() for count in self._layout.levels]
        self._term_weights = self._weigh_terms(law_ids)
        weights = [item.weight for item in self._components]
        self.law_weights = np.bincount(law_ids, weights, len(self._laws)) / sum(weights or [1.0])
        self._lay_out_derivatives()
        self._collect(law_ids, kernel_ids, bases)

    def _lay_out_derivatives(self) -> None:
        """Lay out the derivatives of each law as products of a share and a column of the base.

        All laws have the same number; shorter ones are padded with zeros. The derivatives by the
        effects of levels are the indicators of the levels in every law: where no law has products
        with them and levels are many, they are looked up instead of being features.
        """
        terms_by_law = [law.prior.terms for law in self._laws]
        pairs = [jacobian_factors(self._layout, terms) for terms in terms_by_law]
        is_multiplied = any(has_deviations(self._layout, terms) for terms in terms_by_law)
        are_few = sum(self._layout.levels) <= _FEW_LEVELS
        self._looked_up_levels = () if is_multiplied or are_few else self._layout.levels
        self._lengths = [len(slots) - sum(self._looked_up_levels) for slots, _ in pairs]
        longest = max(self._lengths, default=0)
        n_slots = MAX_TERMS * len(self._laws)
        self._slots = np.full((len(pairs), longest), n_slots + 1)
        self._factors = np.zeros((len(pairs), longest), dtype=np.int64)
        for index, ((slots, factors), length) in enumerate(zip(pairs, self._lengths, strict=True)):
            positions = np.where(slots < 0, n_slots, MAX_TERMS * index + slots)
            self._slots[index, :length] = positions[:length]
            self._factors[index, :length] = factors[:length]

    def _weigh_terms(self, law_ids: Sequence[int]) -> FloatArray:
        """Return the weight of each term of each law in the share of that term."""
        pairs = list(zip(self._components, law_ids, strict=True))
        sums = [pair for pair in pairs if len(pair[0].fitted.prior.terms) > 1] or pairs
        norm = sum(item.weight for item, _ in sums)
        counts: FloatArray = np.zeros((len(self._laws), MAX_TERMS, len(TERMS)))
        for item, law in sums:
            for slot, term in enumerate(item.fitted.prior.terms):
                counts[law, slot, TERMS.index(term)] += item.weight / norm
        return counts.reshape(-1, len(TERMS))

    def _collect(
        self,
        law_ids: Sequence[int],
        kernel_ids: Sequence[int | None],
        bases: Sequence[Sequence[tuple[float, int]]],
    ) -> None:
        """Collect the slopes, quadratic forms and constants of the components."""
        items, (n_laws, longest) = self._components, self._slots.shape
        members: list[_Component | _Other] = [*items, *self._others]
        self._weights = np.array([item.weight for item in members])
        first, n_rows = self._starts[-1] + n_laws * longest, self._starts[-1]
        self._first_law, self._first_other = first, first + n_laws
        self._slopes = np.zeros((self._first_other + len(self._others) + 1, len(members)))
        self._slopes[-1] = [item.center for item in members]
        correlation_form: FloatArray = np.zeros((n_rows, n_rows + self._n_paired * longest))
        self._law_forms = np.zeros((n_laws, longest, longest))
        self._levels = LevelForms(self._looked_up_levels, first, len(members))
        self._scatter = 0.0
        # For a member with a variance of its own, this one is subtracted again in `_answer`.
        self._noise = sum(item.weight * item.own_variance for item in self._others)
        for index, (item, law, kernel) in enumerate(zip(items, law_ids, kernel_ids, strict=True)):
            self._slopes[first + law, index] = 1.0
            length, place = self._lengths[law], n_rows + law * longest
            block, columns = self._law_forms[law, :length, :length], slice(place, place + length)
            if item.process is None or kernel is None:
                law_form = item.weight * item.fitted.covariance
                block += law_form[:length, :length]
                self._levels.add_form(law_form[length:], columns)
                self._noise += item.weight * item.fitted.misfit
                continue
            rows = slice(self._starts[kernel], self._starts[kernel + 1])
            slopes, n = item.process.mean_slopes(), rows.stop - rows.start
            self._slopes[rows, index] = slopes[:n]
            self._slopes[columns, index] = slopes[n : n + length]
            row_form, cross_form, law_form = (item.weight * f for f in item.process.variance_form())
            correlation_form[rows, rows] += row_form
            correlation_form[rows, columns] += 2 * cross_form[:, :length]
            block += law_form[:length, :length]
            self._levels.add_slopes(slopes[n + length :], index)
            self._levels.add_form(law_form[length:], columns)
            self._levels.add_cross_block(cross_form[:, length:], rows)
            self._scatter += item.weight * item.process.scatter
            self._noise += item.weight * item.process.noise
        for place, pairs in enumerate(bases):
            self._slopes[self._first_other + place, len(items) + place] = 1.0
            for share, law in pairs:
                self._slopes[first + law, len(items) + place] += share
        self._forms = upper_blocks(correlation_form)

    def _base(self, X: FloatArray) -> FloatArray:
        """Return the base of the laws: 1, numeric features, indicators of levels, the gate."""
        width = self._layout.n_numeric
        if len(X) == 1:
            row = X[0].tolist()
            levels = [
                value
                for code, indicators in zip(row[width + 1 :], self._indicators, strict=True)
                for value in indicators[int(code)]
            ]
            return np.array([[1.0, *row[:width], *levels, row[width]]])
        base: FloatArray = np.zeros((len(X), len(self._coefficients)))
        base[:, 0] = 1.0
        base[:, 1 : width + 1] = X[:, :width]
        rows, start = np.arange(len(X)), width + 1
        for codes, count in zip(self._layout.codes(X).T, self._layout.levels, strict=True):
            base[rows, start + codes] = 1.0
            start += count
        base[:, -1] = X[:, width]
        return base

    def _features(
        self, X: FloatArray, correlations: Sequence[FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the shared features, given those of the kernels, and the shares of the terms."""
        n, (n_laws, longest) = len(X), self._slots.shape
        n_slots = MAX_TERMS * n_laws
        base, u = self._base(X), np.empty((n, len(self._slopes)))
        terms = base @ self._coefficients
        logs = terms[:, :n_slots].reshape(n, n_laws, MAX_TERMS)
        of_laws = np.logaddexp.reduce(logs, 2)
        # The shares, then a 1 and a 0 for derivatives without a share.
        flat = np.zeros((n, n_slots + 2))
        flat[:, n_slots] = 1.0
        shares = flat[:, :n_slots].reshape(n, n_laws, MAX_TERMS)
        np.exp(np.subtract(logs, of_laws[:, :, None], out=shares), out=shares)
        np.add(of_laws, terms[:, n_slots:], out=u[:, self._first_law : self._first_other])
        for block, start, end in zip(
            correlations, self._starts[:-1], self._starts[1:], strict=True
        ):
            u[:, start:end] = block
        derivatives = u[:, self._starts[-1] : self._first_law].reshape(n, n_laws, longest)
        factors = base.take(self._factors, axis=1)
        np.multiply(flat.take(self._slots, axis=1), factors, out=derivatives)
        return u, shares

    def _component_variance(self, u: FloatArray) -> FloatArray:
        """Return the weighted sum of the variances within the components, without noise."""
        n, (n_laws, longest) = len(u), self._slots.shape
        by_law = u[:, self._starts[-1] : self._first_law].reshape(n, n_laws, longest)
        by_law = by_law.transpose(1, 0, 2)
        total = np.add.reduce(np.vecdot(by_law @ self._law_forms, by_law), 0, initial=self._scatter)
        for start, form in self._forms:
            columns = u[:, start : start + form.shape[1]]
            total += np.vecdot(columns[:, : len(form)] @ form, columns)
        return np.asarray(total, dtype=np.float64)

    def _answer(self, X: FloatArray, correlations: Sequence[FloatArray]) -> Evaluation:
        n, first = len(X), self._first_other
        if self._laws:
            u, shares = self._features(X, correlations)
        else:
            u, shares = np.empty((n, len(self._slopes))), np.zeros((n, 0, MAX_TERMS))
        u[:, -1] = 1.0
        variance = self._component_variance(u) if self._components else np.zeros(n)
        shift = None
        if self._levels.size:
            shift, level_variance = self._levels.at(self._layout.codes(X), u[:, : self._first_law])
            variance += level_variance
        np.maximum(variance, 0.0, out=variance)
        variance += self._noise
        for place, item in enumerate(self._others, first):
            u[:, place], member_variance = item.member.predict_moments(X)
            if member_variance is not None:
                variance += item.weight * (member_variance - item.own_variance)
        means = u @ self._slopes
        if shift is not None:
            means += shift
        total, square = means @ self._weights, (means * means) @ self._weights
        variance += np.maximum(square - total * total, 0.0)
        return Evaluation(total, variance, shares)


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


def _same_law(one: FittedLaw, other: FittedLaw) -> bool:
    is_alike = one.prior.terms == other.prior.terms
    return one is other or (is_alike and np.array_equal(one.theta, other.theta))
