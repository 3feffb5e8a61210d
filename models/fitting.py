"""From runs to a fitted portfolio: encode, fit, hold out, weigh, calibrate."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from models.accelerator_memory.fit import fit_memory_law
from models.accelerator_memory.law import MemoryLaw
from models.candidates import CANDIDATES, Setting
from models.columns.relevance import with_relevance
from models.convergence import fit_convergence
from models.draft import Draft, Encoding
from models.errors import NotEnoughRunsError, NothingFittedError, UnknownRegressorError
from models.evidence import Evidence
from models.explanations.phases import fit_phases
from models.features.encoded import Encoded
from models.features.encoder import Encoder
from models.features.hardware import HardwareDescription
from models.features.layout import Layout
from models.pooling.priors import EncodedPrior, PooledPrior
from models.portfolio import FittedPortfolio
from models.processes.gaussian import GaussianProcess
from models.questions.regimes import (
    Fold,
    RegimeMap,
    axis_folds,
    interpolation_folds,
    map_regimes,
    transfer_folds,
)
from models.regressor import PortfolioRegressor
from models.reports import ChangePoint, EvidenceReport
from models.runs.configurations import Configurations, collapse
from models.runs.outliers import find_outliers
from models.screening.censoring import impute
from models.screening.contradictions import name_contradicted, settle_pairs
from models.screening.eras import at_present, find_change_points, unfinished_at_present
from models.screening.incomplete import find_incomplete
from models.screening.refutation import name_refuted, without_refuted
from models.selection.arms import WITHOUT_PRIOR, Arms, build_arms
from models.selection.budget import HELD_OUT_SETS, Budget, Progress
from models.selection.holdout import FoldMap, TrainingData, forecast_folds, gather
from models.state.checks import MAX_LOG
from models.tables import RunTable
from models.threads import single_thread

_SHARE_OF_FULL_FITS = 0.3
"""Share of a fit's progress that fits on all runs take, after 2 % for the encoding."""

_MAX_CHECKED = 1000
"""Number of configurations whose forecasts must be within bounds for a candidate to take part."""


@single_thread
def fit_portfolio(  # noqa: PLR0913 - every choice of a fit is a keyword
    runs: RunTable,
    *,
    seed: int,
    time_budget_s: float,
    regressors: Collection[str] | None = None,
    hardware: Mapping[str, HardwareDescription] | None = None,
    prior: PooledPrior | None = None,
    evidence: Evidence | None = None,
    on_progress: Progress | None = None,
    fold_map: FoldMap = map,
) -> FittedPortfolio:
    """Fit the portfolio on the runs of one workload.

    Parameters
    ----------
    runs
        Completed runs, at least one.
    seed
        Seed of everything random; equal runs and seed give equal artefacts, in any row order, as
        long as the time budget does not bind.
    time_budget_s
        Seconds after which no further regressor is fitted and no further held-out set is begun.
        The report says what was left out; one regressor is always fitted.
    regressors
        Names from `models.candidates.CANDIDATES`; all by default.
    hardware
        Data sheets of accelerators by GPU type.
    prior
        What was learned from other workloads, never from this one; None for physics and data
        sheets alone.
    evidence
        What runs show besides durations: memory, bounds of unfinished runs, samples to a target,
        phases.
    on_progress
        Called with the share done and the current step; an exception it raises ends the fit.
    fold_map
        Applies the forecasting function to held-out sets: the built-in `map` does so one by one,
        another may use a cluster. The result is the same.

    Raises
    ------
    NotEnoughRunsError
        If there are no runs.
    UnknownRegressorError
        If a name in `regressors` is not known.
    NothingFittedError
        If no candidate could be fitted.
    ValueError
        If a column is called ``interpolation``, as a kind of question is.

    Examples
    --------
    >>> from models.tables import FeatureTable
    >>> workers = np.array([1.0, 2.0, 4.0, 8.0])
    >>> table = RunTable(FeatureTable({"workers": workers}, {}, 4), 800 / workers, list("abcd"))
    >>> portfolio = fit_portfolio(table, seed=0, time_budget_s=10)
    >>> question = FeatureTable({"workers": np.array([16.0])}, {}, 1)
    >>> bool(35 < portfolio.predict(question).median()[0] < 70)
    True
    """
    if runs.n_runs < 1:
        raise NotEnoughRunsError(found=runs.n_runs, needed=1)
    names = _check_names(regressors)
    progress = on_progress or (lambda _fraction, _step: None)
    budget, evidence = Budget(time_budget_s, progress), evidence or Evidence()
    progress(0.0, "encoding")
    present, changes, n_incomplete = _present(runs, hardware, seed)
    imputed = impute(
        present, unfinished_at_present(evidence.unfinished, changes), hardware, seed=seed
    )
    measured = collapse(imputed.runs)
    encoder = Encoder.learn(measured.features, hardware)
    settled = settle_pairs(measured, encoder, seed)
    configurations = without_refuted(settled, encoder, seed)
    encoding = Encoding.of(configurations, encoder, prior, seed)
    encoder, encoded = encoding.encoder, encoding.encoded
    data = _training_data(configurations, encoding, seed)
    encoded_prior = None if prior is None else EncodedPrior(prior, encoder, encoded)
    layouts = build_arms(data.layout, encoded_prior, len(configurations.keys))
    budget.mark_prepared()
    fitted, failed = _fit_candidates(data, configurations, layouts, names, seed, budget)
    regime_map = map_regimes(encoder, data.layout, encoded.X, encoded.codes)
    folds = _folds(configurations, encoder, encoded, regime_map)
    forecasts = forecast_folds(data, fitted, folds, budget, fold_map)
    if len(forecasts) < len(folds):
        failed[HELD_OUT_SETS] = f"{len(folds) - len(forecasts)} of {len(folds)} {budget.reason()}"
    progress(0.97, "calibrating")
    draft = Draft(
        configurations=configurations,
        encoding=encoding,
        imputed=imputed,
        regime_map=regime_map,
        fitted=fitted,
        failed=failed,
        held_out=gather(data, forecasts),
        prior=encoded_prior,
        arms=Arms.of(fitted, data.layout, encoding.used_axes(), data.X),
        memory_law=_memory_law(evidence, hardware, seed),
        convergence=fit_convergence(evidence.convergence),
        phases=fit_phases(evidence.phases, encoder),
    )
    outliers = (
        *find_outliers(present, measured),
        *name_contradicted(present, measured, settled),
        *name_refuted(settled, configurations),
    )
    report = EvidenceReport(incomplete=n_incomplete, change_points=changes, outliers=outliers)
    portfolio = draft.finish(present, report)
    progress(1.0, "done")
    return portfolio


def _present(
    runs: RunTable, hardware: Mapping[str, HardwareDescription] | None, seed: int
) -> tuple[RunTable, tuple[ChangePoint, ...], int]:
    """Return the runs at the present pace, change points and the number of incomplete runs."""
    changes = find_change_points(runs, hardware, seed=seed)
    present = at_present(runs, changes)
    incomplete = find_incomplete(present, hardware, seed=seed)
    kept = present.take(np.flatnonzero(~incomplete)) if incomplete.any() else present
    return kept, changes, int(incomplete.sum())


def _memory_law(
    evidence: Evidence, hardware: Mapping[str, HardwareDescription] | None, seed: int
) -> MemoryLaw | None:
    memory = evidence.memory
    return None if memory is None else fit_memory_law(memory, hardware, seed=seed)


def _folds(
    configurations: Configurations, encoder: Encoder, encoded: Encoded, regime_map: RegimeMap
) -> list[Fold]:
    """Return the held-out sets of all kinds of question."""
    return [
        *interpolation_folds(configurations.structure),
        *axis_folds(encoder, regime_map, encoded.X),
        *transfer_folds(encoder, encoded.codes, regime_map),
    ]


def _training_data(configurations: Configurations, encoding: Encoding, seed: int) -> TrainingData:
    layout, X, y = encoding.encoder.layout, encoding.encoded.X, encoding.y
    return TrainingData(
        with_relevance(layout, X, y, seed),
        X,
        y,
        configurations.counts,
        configurations.noise_variances,
        encoding.jitter,
        tuple(feature for feature in encoding.encoder.numeric if feature.used),
    )


def _check_names(regressors: Collection[str] | None) -> list[str]:
    if regressors is None:
        return list(CANDIDATES)
    unknown = sorted(set(regressors) - set(CANDIDATES))
    if unknown or not regressors:
        raise UnknownRegressorError(unknown, tuple(CANDIDATES))
    return [name for name in CANDIDATES if name in regressors]


def _fit_candidates(
    data: TrainingData,
    configurations: Configurations,
    layouts: Mapping[str, Layout],
    names: Sequence[str],
    seed: int,
    budget: Budget,
) -> tuple[dict[str, PortfolioRegressor], dict[str, str]]:
    noise = configurations.noise_variance**0.5
    setting = Setting(data.layout, noise, configurations.noise_dof, seed)
    fitted: dict[str, PortfolioRegressor] = {}
    failed: dict[str, str] = {}
    candidates = [
        (prefix + name, name, layout)
        for prefix, layout in layouts.items()
        for name in names
        if not (prefix and name in WITHOUT_PRIOR)
    ]
    for index, (name, kind, layout) in enumerate(candidates):
        share = 0.02 + _SHARE_OF_FULL_FITS * index / len(candidates)
        if not budget.begin(share, f"fitting {name}") and fitted:
            failed[name] = budget.reason()
            continue
        setting = replace(setting, layout=layout)
        try:
            regressor = CANDIDATES[kind](setting).fit(data.X, data.y, data.counts)
            moments = regressor.predict_moments(data.X[:_MAX_CHECKED])
        except (ValueError, np.linalg.LinAlgError) as error:
            failed[name] = str(error)
            continue
        # NaN is not within bounds either.
        if not all((np.abs(values) <= MAX_LOG).all() for values in moments if values is not None):
            failed[name] = "forecasts that are not finite, or beyond all durations"
            continue
        fitted[name] = regressor
        if isinstance(regressor, GaussianProcess):
            setting = replace(setting, shape=regressor.shape())
    if not fitted:
        raise NothingFittedError(failed)
    return fitted, failed
