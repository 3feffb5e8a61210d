"""What a workload contributes to the priors of others: numbers about its laws, no runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np

from models.features.aliases import aliased_columns, without_columns
from models.features.encoder import Encoder
from models.features.numeric import NumericFeature
from models.laws.law_priors import TEMPLATES, TERMS, Template, Term, law_prior
from models.laws.power_laws import FittedLaw, evidence_temperature, fit_law
from models.laws.scaling_laws import random_subset
from models.runs.configurations import collapse
from models.tables import FloatArray, IntArray, RunTable
from models.threads import single_thread

FAMILIES: tuple[tuple[Term, ...], ...] = (("compute",), ("compute", "overhead", "comm"), TERMS)
"""The sums of terms that the portfolio's members fit."""

FORMAT_OF_SUMMARIES = 1
"""Raised whenever the meaning of a summary changes; other formats are not pooled."""

MAX_SUMMARISED = 150
"""More configurations than this are thinned out, since a law has few parameters."""

_WIDE_SD, _INSTANCE_SD, _OTHER_SD = 2.0, 0.15, 0.5
"""Prior deviations of the log effects of GPU types, of instance types beside them, of other levels.

The first is so wide that only the runs count; with the narrow others, an effect that could be
either's is ascribed to the GPU type."""

_MIN_INFORMATION = 0.05
"""Information below this, relative to that of the template's prior, is left out."""

_DIGITS = 5
"""Significant digits of the numbers in a summary."""

_STANDARD_CATEGORIES = ("gpu_type", "param.precision")


@dataclass(frozen=True, slots=True)
class LawEvidence:
    """What the runs alone say about the parameters of one template of one family.

    Parameters
    ----------
    template, terms
        The law.
    weight
        Share of the template among those of the family, by tempered evidence.
    estimates
        Name of a parameter (``term|feature``) to location and information (inverse variance), with
        the template's own prior removed; parameters of which the runs tell nothing are left out.
    """

    template: str
    terms: tuple[str, ...]
    weight: float
    estimates: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class LevelEvidence:
    """What the runs alone say about the effects of the levels of one category.

    Parameters
    ----------
    category
        The column.
    levels
        Its measured levels.
    effects
        Log effect of each level up to a constant, shape (n_levels,).
    covariance
        Their covariance, shape (n_levels, n_levels).
    """

    category: str
    levels: tuple[str, ...]
    effects: FloatArray
    covariance: FloatArray


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """Everything that a workload tells the priors of others.

    It is computed under the templates' own prior, never under a pooled one: otherwise what a
    workload learned from others would come back to them as if it were new.
    """

    workload: str
    n_configurations: int
    laws: tuple[LawEvidence, ...]
    levels: tuple[LevelEvidence, ...]

    def to_document(self) -> dict[str, Any]:
        """Return the summary as plain JSON values."""
        return {
            "format": FORMAT_OF_SUMMARIES,
            "workload": self.workload,
            "n_configurations": self.n_configurations,
            "laws": [
                {
                    "template": law.template,
                    "terms": list(law.terms),
                    "weight": law.weight,
                    "estimates": {name: list(pair) for name, pair in law.estimates.items()},
                }
                for law in self.laws
            ],
            "levels": [
                {
                    "category": item.category,
                    "levels": list(item.levels),
                    "effects": item.effects.tolist(),
                    "covariance": item.covariance.tolist(),
                }
                for item in self.levels
            ],
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "WorkloadSummary":
        """Return the summary of a document that `to_document` made.

        Raises
        ------
        ValueError
            If it has another format, a number is not finite, or the shape of an array does not
            match its levels.
        """
        if document.get("format") != FORMAT_OF_SUMMARIES:
            raise ValueError(f"The summary has format {document.get('format')!r}.")
        levels = tuple(
            LevelEvidence(
                item["category"],
                tuple(item["levels"]),
                np.array(item["effects"], dtype=np.float64),
                np.array(item["covariance"], dtype=np.float64),
            )
            for item in document["levels"]
        )
        laws = tuple(
            LawEvidence(
                law["template"],
                tuple(law["terms"]),
                float(law["weight"]),
                {name: (float(at), float(info)) for name, (at, info) in law["estimates"].items()},
            )
            for law in document["laws"]
        )
        for item in levels:
            n = len(item.levels)
            has_shape = item.effects.shape == (n,) and item.covariance.shape == (n, n)
            if not (
                has_shape and np.isfinite(item.effects).all() and np.isfinite(item.covariance).all()
            ):
                raise ValueError(f"The summary's {item.category!r} does not fit its levels.")
        pairs = [pair for law in laws for pair in law.estimates.values()]
        if not np.isfinite([*(law.weight for law in laws), *chain.from_iterable(pairs)]).all():
            raise ValueError("The summary holds a number that is not finite.")
        return cls(str(document["workload"]), int(document["n_configurations"]), laws, levels)

    def anonymous(self, name: str) -> "WorkloadSummary":
        """Return the summary under another name, with only standard columns and GPU types.

        Parameters and levels that have a meaning only in their own project are left out.
        """
        laws = tuple(
            replace(
                law,
                estimates={key: pair for key, pair in law.estimates.items() if "param." not in key},
            )
            for law in self.laws
        )
        levels = tuple(item for item in self.levels if item.category in _STANDARD_CATEGORIES)
        return WorkloadSummary(name, self.n_configurations, laws, levels)


def feature_names(encoder: Encoder) -> tuple[str | None, ...]:
    """Return the name of each numeric column of the layout; see `feature_name`."""
    names = [feature_name(feature) for feature in encoder.numeric if feature.used]
    names += [None for feature in encoder.numeric if feature.flagged]
    if encoder.multi_node:
        names.append("multi_node")
    return tuple(names)


def feature_name(feature: NumericFeature) -> str | None:
    """Return a name that means the same in every workload, None if there is none.

    A core column is named by its role, a parameter by its column and transform.
    """
    if feature.role == "parameter":
        return f"{feature.column}:{feature.quotient}:{feature.transform}"
    return feature.role if feature.transform == "log" else None


def parameter_names(terms: Sequence[str], features: Sequence[str | None]) -> list[str | None]:
    """Return the names of a law's log shares and exponents, in the order of its parameters.

    Examples
    --------
    >>> parameter_names(("compute",), ("workers", None))
    ['compute|beta', 'compute|workers', None]
    """
    names: list[str | None] = [f"{term}|beta" for term in terms]
    for term in terms:
        names += [None if name is None else f"{term}|{name}" for name in features]
    return names


class _WidePrior:
    """The templates' prior with wide effects of levels, used only for summaries."""

    has_deviations = False

    def __init__(self, sds: FloatArray, aliased: IntArray, n_numeric: int) -> None:
        self._sds, self._aliased, self._n_numeric = sds, aliased, n_numeric

    def numeric(
        self, template: str, terms: tuple[str, ...], means: FloatArray, sds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        del template
        return without_columns((means, sds), len(terms), self._n_numeric, self._aliased)

    def log_weight(self, template: str, terms: tuple[str, ...]) -> float:
        del template, terms
        return 0.0

    def levels(self, spreads: FloatArray) -> tuple[FloatArray, FloatArray]:
        del spreads
        return np.zeros(len(self._sds)), np.diag(self._sds**2)


@single_thread
def summarise(runs: RunTable, workload: str) -> WorkloadSummary:
    """Return the summary of a workload's runs.

    Every template of every family is fitted by its Laplace approximation; the template's diagonal
    prior is then removed from each parameter: ``lam = 1 / S_ii - 1 / sd^2`` and
    ``th = (theta_i / S_ii - m0 / sd^2) / lam``. This takes about a tenth of a second.

    Parameters
    ----------
    runs
        Runs that succeeded, at least one.
    workload
        The name under which the contributor is shown.

    References
    ----------
    Vehtari et al. (2020), Expectation propagation as a way of life, JMLR 21: the likelihood's
    share of a Gaussian posterior.

    Examples
    --------
    >>> from models.tables import FeatureTable
    >>> workers = np.array([1.0, 2.0, 4.0, 8.0])
    >>> table = RunTable(FeatureTable({"workers": workers}, {}, 4), 800 / workers, list("abcd"))
    >>> law = summarise(table, "mine").laws[0]
    >>> round(law.estimates["compute|workers"][0], 2)
    -1.0
    """
    configurations = collapse(runs)
    rows = random_subset(len(configurations.keys), MAX_SUMMARISED, 0)
    encoder = Encoder.learn(configurations.features)
    encoded = encoder.encode(configurations.features)
    X = encoded.X[rows]
    y = configurations.log_duration[rows]
    aliased = aliased_columns(encoder, encoded.X, encoded.codes)
    prior = _WidePrior(_level_sds(encoder), aliased, encoder.layout.n_numeric)
    layout = replace(encoder.layout, prior=prior)
    features = feature_names(encoder)
    laws: list[LawEvidence] = []
    best: FittedLaw | None = None
    for terms in FAMILIES:
        fitted = {
            name: fit_law(layout, law_prior(layout, name, terms, 1.0), X, y - np.median(y))
            for name in TEMPLATES
        }
        best = max(fitted.values(), key=lambda law: law.evidence)
        weights = _tempered_weights(fitted, len(y))
        laws += [
            LawEvidence(
                name, terms, weights[name], _estimates(law, parameter_names(terms, features))
            )
            for name, law in fitted.items()
        ]
    assert best is not None
    return WorkloadSummary(workload, len(y), tuple(laws), _level_evidence(encoder, best))


def _level_sds(encoder: Encoder) -> FloatArray:
    used = [category for category in encoder.categories if category.used]
    names = [category.column for category in used]
    sds: list[float] = []
    for category in used:
        is_main = category.column == ("gpu_type" if "gpu_type" in names else "instance_type")
        is_instance = category.column == "instance_type" and not is_main
        sd = _WIDE_SD if is_main else _INSTANCE_SD if is_instance else _OTHER_SD
        sds += [sd] * len(category.levels)
    return np.array(sds)


def _tempered_weights(fitted: Mapping[Template, FittedLaw], n: int) -> dict[Template, float]:
    evidence = np.array([law.evidence for law in fitted.values()]) / evidence_temperature(n)
    weights = np.exp(evidence - evidence.max())
    shares = (weights / weights.sum()).round(_DIGITS).tolist()
    return dict(zip(fitted, shares, strict=True))


def _estimates(law: FittedLaw, names: Sequence[str | None]) -> dict[str, tuple[float, float]]:
    estimates: dict[str, tuple[float, float]] = {}
    prior = law.prior
    for index, name in enumerate(names):
        prior_information = float(prior.sds[index]) ** -2
        posterior = 1 / float(law.covariance[index, index])
        information = posterior - prior_information
        if name is None or information <= _MIN_INFORMATION * prior_information:
            continue
        location = (
            law.theta[index] * posterior - prior.means[index] * prior_information
        ) / information
        estimates[name] = (_rounded(location), _rounded(information))
    return estimates


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _level_evidence(encoder: Encoder, law: FittedLaw) -> tuple[LevelEvidence, ...]:
    first = len(law.prior.terms) * (1 + encoder.layout.n_numeric)
    evidence = []
    for category in encoder.categories:
        if not category.used:
            continue
        indices = [first + code for code, level in enumerate(category.levels) if level is not None]
        first += len(category.levels)
        rounded = np.vectorize(_rounded, otypes=[np.float64])
        evidence.append(
            LevelEvidence(
                category.column,
                tuple(level for level in category.levels if level is not None),
                rounded(law.theta[indices]),
                rounded(law.covariance[np.ix_(indices, indices)]),
            )
        )
    return tuple(evidence)
