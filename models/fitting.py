"""From runs to a fitted portfolio: encode, fit, hold out, weigh, calibrate."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from models.arms import WITHOUT_PRIOR, Arms, build_arms, uses_pool
from models.budget import LEFT_OUT, Budget, Progress
from models.candidates import CANDIDATES, Setting
from models.censoring import Imputed, impute
from models.configurations import UNBOUNDED, Configurations, collapse, fingerprint
from models.convergence import fit_convergence
from models.encoding import Encoded, Encoder
from models.eras import at_present, find_change_points
from models.errors import NotEnoughRunsError, NothingFittedError, UnknownRegressorError
from models.evidence import Evidence
from models.exponents import with_exponents
from models.gaussian import GaussianProcess
from models.hardware import HardwareDescription
from models.holdout import FoldMap, TrainingData, forecast_folds, gather
from models.intervals import calibrate, found_surprise, prior_curve
from models.layout import Layout
from models.level_effects import LevelEffects, untold_effects
from models.likely_questions import UNTESTED_VARIANCE
from models.measured import measured_levels, measured_ranges
from models.memory import Memory
from models.memory_fit import fit_memory_law
from models.memory_law import MemoryLaw
from models.mixture import RegimeModel
from models.outliers import find_outliers
from models.phases import fit_phases
from models.pooling import EncodedPrior, PooledPrior
from models.portfolio import FittedPortfolio
from models.refutation import name_refuted, without_refuted
from models.regimes import (
    INTERPOLATION,
    IRRELEVANT_AXIS,
    RegimeMap,
    axis_folds,
    interpolation_folds,
    map_regimes,
    transfer_folds,
)
from models.regressor import PortfolioRegressor
from models.relevance import with_relevance
from models.reports import CandidateReport, EvidenceReport, FitReport, PoolingReport
from models.rising_batches import with_rising_batch
from models.run_names import RunNames
from models.selection import HeldOut
from models.shares import with_shares
from models.tables import FeatureTable, FloatArray, RunTable
from models.threads import single_thread
from models.transfer import LevelTransfer
from models.versions import library_versions

_SHARE_OF_FULL_FITS = 0.3
_MOST_CHECKED = 1000


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
        Runs that ended well, at least one.
    seed
        Seed of everything random; equal runs and seed give equal artefacts, in any row order, as
        long as the time budget does not bind.
    time_budget_s
        Seconds after which no further regressor is fitted and no further held-out set begun. The
        report tells what was left out; one regressor is always fitted.
    regressors
        Names out of `models.candidates.CANDIDATES`; all by default.
    hardware
        Data sheets of accelerators by GPU type.
    prior
        What other workloads say, never this one itself; physics and data sheets alone if None.
    evidence
        What runs tell besides durations: memory, bounds of unfinished ones, samples to a target,
        phases.
    on_progress
        Called with the share done and the step under way; an exception it raises ends the fit.
    fold_map
        Where held-out sets are forecast: the built-in `map` does so in turn, another one may use a
        cluster. It changes nothing in the result.

    Raises
    ------
    NotEnoughRunsError
        Without a run.
    UnknownRegressorError
        If a name in `regressors` is not known.
    NothingFittedError
        If no candidate could be fitted.

    Examples
    --------
    >>> workers = np.array([1.0, 2.0, 4.0, 8.0])
    >>> table = RunTable(FeatureTable({"workers": workers}, {}, 4), 800 / workers, list("abcd"))
    >>> portfolio = fit_portfolio(table, seed=0, time_budget_s=10)
    >>> asked = FeatureTable({"workers": np.array([16.0])}, {}, 1)
    >>> bool(35 < portfolio.predict(asked).median()[0] < 70)
    True
    """
    if runs.n_runs < 1:
        raise NotEnoughRunsError(found=runs.n_runs, needed=1)
    names = _check_names(regressors)
    progress = on_progress or (lambda _fraction, _step: None)
    budget, evidence = Budget(time_budget_s, progress), evidence or Evidence()
    progress(0.0, "encoding")
    changes = find_change_points(runs, hardware, seed=seed)
    present = at_present(runs, changes)
    prepared = impute(present, evidence.unfinished, hardware, seed=seed)
    measured = collapse(prepared.runs)
    encoder = Encoder.learn(measured.features, hardware)
    configurations = without_refuted(measured, encoder, seed)
    y = configurations.log_duration - (center := float(np.median(configurations.log_duration)))
    encoder = with_shares(encoder, configurations.features, y, seed)
    encoder = with_rising_batch(encoder, configurations.features, y, seed)
    if prior is not None:
        encoder = with_exponents(encoder, prior)
    encoded = encoder.encode(configurations.features)
    data = TrainingData(
        with_relevance(encoder.layout, encoded.X, y, seed),
        encoded.X,
        y,
        configurations.counts,
        configurations.noise_variance,
        any(feature.rises for feature in encoder.numeric),
    )
    informed = None if prior is None else EncodedPrior(prior, encoder, encoded)
    layouts = build_arms(data.layout, informed, len(configurations.keys))
    budget.set_out()
    fitted, failed = _fit_candidates(data, configurations, layouts, names, seed, budget)
    regime_map = map_regimes(encoder, data.layout, encoded.X, encoded.codes)
    folds = [
        *interpolation_folds(configurations.structure),
        *axis_folds(encoder, regime_map, encoded.X),
        *transfer_folds(encoder, encoded.codes, regime_map),
    ]
    forecasts = forecast_folds(data, fitted, folds, budget, fold_map)
    if len(forecasts) < len(folds):
        failed[LEFT_OUT] = f"{len(folds) - len(forecasts)} of {len(folds)} {budget.reason()}"
    held_out = gather(data, forecasts)
    progress(0.97, "calibrating")
    memory = evidence.memory
    law = None if memory is None else fit_memory_law(memory, hardware, seed=seed)
    axes = [feature.column for feature in encoder.numeric if feature.used]
    draft = _Draft(
        configurations, center, encoder, encoded, regime_map, fitted, failed, held_out,
        informed, law, prepared, Arms.of(fitted, data.layout, axes, data.X),
    )  # fmt: skip
    odd = EvidenceReport(
        change_points=changes,
        outliers=(*find_outliers(present, measured), *name_refuted(measured, configurations)),
    )
    portfolio = draft.finish(runs, odd)
    portfolio.convergence = fit_convergence(evidence.convergence)
    portfolio.phases = fit_phases(evidence.phases, encoder)
    progress(1.0, "done")
    return portfolio


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
    every = [
        (prefix + name, name, layout)
        for prefix, layout in layouts.items()
        for name in names
        if not (prefix and name in WITHOUT_PRIOR)
    ]
    for index, (name, kind, layout) in enumerate(every):
        share = 0.02 + _SHARE_OF_FULL_FITS * index / len(every)
        if not budget.begin(share, f"fitting {name}") and fitted:
            failed[name] = budget.reason()
            continue
        setting = replace(setting, layout=layout)
        try:
            regressor = CANDIDATES[kind](setting).fit(data.X, data.y, data.counts)
            mean, _ = regressor.predict_moments(data.X[:_MOST_CHECKED])
        except (ValueError, np.linalg.LinAlgError) as error:
            failed[name] = str(error)
            continue
        if not np.isfinite(mean).all():
            failed[name] = "forecasts that are not finite"
            continue
        fitted[name] = regressor
        if isinstance(regressor, GaussianProcess):
            setting = replace(setting, shape=regressor.shape())
    if not fitted:
        raise NothingFittedError(failed)
    return fitted, failed


@dataclass(frozen=True, slots=True)
class _Draft:
    """A portfolio before weights, calibration and report."""

    configurations: Configurations
    center: float
    encoder: Encoder
    encoded: Encoded
    regime_map: RegimeMap
    fitted: Mapping[str, PortfolioRegressor]
    failed: Mapping[str, str]
    held_out: Mapping[str, HeldOut]
    prior: EncodedPrior | None
    memory_law: MemoryLaw | None
    prepared: Imputed
    arms: Arms

    def finish(self, runs: RunTable, odd: EvidenceReport) -> FittedPortfolio:
        source = {
            name: INTERPOLATION if kind == IRRELEVANT_AXIS else name
            for name, kind in self.regime_map.kinds.items()
        }
        inside = self._regime(INTERPOLATION, 1.0)
        surprise = self._surprise(inside.weights)
        found = {
            name: inside if name == INTERPOLATION else self._regime(name, surprise)
            for name in source.values()
        }
        regimes = {name: found[answering] for name, answering in source.items()}
        carried = np.any([regime.weights > 0 for regime in regimes.values()], axis=0)
        members = {
            name: member
            for (name, member), is_carried in zip(self.fitted.items(), carried, strict=True)
            if is_carried
        }
        slim = {
            name: RegimeModel(
                regime.weights[carried], regime.residual_variances[carried], regime.curve
            )
            for name, regime in regimes.items()
        }
        codes = self.encoded.codes
        return FittedPortfolio(
            self.encoder,
            LevelTransfer.learn(
                self.encoder,
                self.encoded.X,
                codes,
                self.configurations.counts,
                self._effects(),
            ),
            self.regime_map,
            members,
            slim,
            self.center,
            self._memory(regimes[INTERPOLATION], runs.features),
            self._report(runs, regimes, odd),
            self.memory_law,
        )

    def _effects(self) -> dict[str, LevelEffects]:
        told = {"gpu_type": untold_effects("gpu_type")}
        if self.prior is not None:
            layout, y = self.encoder.layout, self.configurations.log_duration - self.center
            told |= self.prior.effects(layout, self.encoded.X, y)
        columns = [category.column for category in self.encoder.categories]
        return {column: told[column] for column in columns if column in told}

    def _pooling(self) -> PoolingReport | None:
        return None if self.prior is None else self.prior.report

    def _surprise(self, weights: FloatArray) -> float:
        inside = self.held_out.get(INTERPOLATION)
        if inside is None:
            return 1.0
        return found_surprise(inside.scores(weights), inside.weights, inside.n_distinct)

    def _regime(self, name: str, surprise: float) -> RegimeModel:
        n, kind = len(self.configurations.keys), self.regime_map.kinds[name]
        held_out = self.held_out.get(name)
        inside = self.held_out.get(INTERPOLATION)
        weights = self.arms.weights(kind, name, held_out, inside)
        tested = held_out or inside
        errors = np.full(len(weights), UNTESTED_VARIANCE)
        if tested is not None:
            found = tested.residual_variances()
            errors = np.where(np.isfinite(found), found, errors)
        is_pooled = uses_pool(list(self.fitted), weights)
        curve = prior_curve(kind, n, is_pooled=is_pooled, surprise=surprise)
        if held_out is not None:
            scores, n_distinct = held_out.scores(weights), held_out.n_distinct
            curve = calibrate(scores, held_out.weights, curve, kind, n, n_distinct)
        return RegimeModel(weights, errors, curve)

    def _memory(self, interpolation: RegimeModel, features: FeatureTable) -> Memory:
        held_out, keys = self.held_out.get(INTERPOLATION), self.configurations.keys
        forecasts = np.full(len(keys), UNBOUNDED)
        if held_out is not None:
            mean, _ = held_out.forecast(interpolation.weights)
            forecasts[held_out.rows] = self.center + mean
        known = {name for name, v in features.numeric.items() if not np.isnan(v).all()}
        known |= {n for n, v in features.categorical.items() if any(x is not None for x in v)}
        return Memory.of(
            self.encoded,
            RunNames.of(keys, self.configurations.run_ids),
            forecasts,
            frozenset(known),
            np.array([key in self.prepared.keys for key in keys], dtype=np.bool_),
            self.configurations.ranges,
        )

    def _report(
        self, runs: RunTable, regimes: Mapping[str, RegimeModel], odd: EvidenceReport
    ) -> FitReport:
        configurations = self.configurations
        accuracy = {
            name: _mape(held_out, regimes[name].weights) for name, held_out in self.held_out.items()
        }
        return FitReport(
            n_runs=runs.n_runs,
            n_configurations=len(configurations.keys) - len(self.prepared.keys),
            candidates=self._candidates(regimes[INTERPOLATION].weights),
            accuracy_by_axis=accuracy,
            coverage=self._coverage(regimes),
            noise_floor=configurations.noise_variance**0.5 if configurations.noise_dof else None,
            numeric_ranges=measured_ranges(configurations.features),
            category_levels=measured_levels(configurations.features),
            training_fingerprint=fingerprint(self.prepared.runs, configurations),
            library_versions=library_versions(),
            failed_candidates=dict(self.failed),
            pooling=self._pooling(),
            evidence=self._evidence(odd),
        )

    def _evidence(self, odd: EvidenceReport) -> EvidenceReport:
        law = self.memory_law
        counts = None if law is None else law.counts
        return replace(odd, memory=counts, unfinished=self.prepared.counts)

    def _candidates(self, weights: FloatArray) -> tuple[CandidateReport, ...]:
        by_axis = {name: item.candidate_mape() for name, item in self.held_out.items()}
        sizes = {name: item.n_distinct for name, item in self.held_out.items()}
        reports = []
        for index, name in enumerate(self.fitted):
            errors = {
                axis: float(mape[index])
                for axis, mape in by_axis.items()
                if np.isfinite(mape[index])
            }
            total = sum(sizes[axis] for axis in errors)
            mape = sum(sizes[axis] * error for axis, error in errors.items())
            overall = mape / total if total else math.nan
            reports.append(CandidateReport(name, float(weights[index]), overall, errors))
        return tuple(reports)

    def _coverage(self, regimes: Mapping[str, RegimeModel]) -> dict[str, float]:
        inside: dict[str, list[FloatArray]] = {"0.8": [], "0.9": []}
        for name, held_out in self.held_out.items():
            scores = held_out.scores(regimes[name].weights)
            inside["0.8"].append(scores <= regimes[name].curve[1])
            inside["0.9"].append(scores <= regimes[name].curve[2])
        return {
            level: float(np.concatenate(parts).mean()) for level, parts in inside.items() if parts
        }


def _mape(held_out: HeldOut, weights: FloatArray) -> float:
    mean, _ = held_out.forecast(weights)
    share = held_out.weights / held_out.weights.sum()
    return float(np.abs(np.expm1(np.clip(mean - held_out.observed, -50, 50))) @ share)
