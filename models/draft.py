"""What a fit has found, and the portfolio made from it: weights, calibration, report."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from models.accelerator_memory.law import MemoryLaw
from models.answers.memory import Memory
from models.calibration.intervals import calibrate, prior_curve, surprise_factor
from models.columns.exponents import with_exponents
from models.columns.level_spreads import with_level_spreads
from models.columns.shares import with_shares
from models.columns.trends import with_fading_trends
from models.convergence import ConvergenceLaw
from models.distribution import AT_80, AT_90
from models.explanations.phases import PhaseLaw
from models.features.encoded import Encoded
from models.features.encoder import Encoder
from models.features.placement import Placement
from models.members.regime_model import RegimeModel
from models.members.transfer import LevelTransfer
from models.pooling.level_effects import LevelEffects, specification_effects
from models.pooling.priors import EncodedPrior, PooledPrior
from models.portfolio import FittedPortfolio
from models.questions.likely_questions import UNTESTED_VARIANCE
from models.questions.regimes import INTERPOLATION, IRRELEVANT_AXIS, RegimeMap
from models.regressor import PortfolioRegressor
from models.reports import CandidateReport, EvidenceReport, FitReport, PoolingReport
from models.runs.configurations import UNBOUNDED, Configurations, fingerprint
from models.runs.jitter import Jitter
from models.runs.measured import measured_levels, measured_ranges
from models.runs.repetitions import half_widths_of_repetitions
from models.runs.run_names import RunNames
from models.screening.censoring import Imputed
from models.selection.arms import Arms, uses_pool
from models.selection.weights import HeldOut
from models.tables import FeatureTable, FloatArray, RunTable
from models.versions import library_versions


@dataclass(frozen=True, slots=True)
class Encoding:
    """Configurations as numbers.

    Attributes
    ----------
    encoder
        The encoder, adjusted to what the durations show about the columns.
    encoded
        The configurations.
    center
        Median log duration.
    y
        Log durations less `center`, shape (n,).
    jitter
        How the noise of runs depends on the duration, None where it is the same for all.
    """

    encoder: Encoder
    encoded: Encoded
    center: float
    y: FloatArray
    jitter: Jitter | None

    @classmethod
    def of(
        cls,
        configurations: Configurations,
        encoder: Encoder,
        prior: PooledPrior | None,
        seed: int,
    ) -> "Encoding":
        """Return the encoding of configurations, with the encoder adjusted to their durations.

        Parameters
        ----------
        configurations
            The configurations to encode.
        encoder
            The encoder learned from their features.
        prior
            Exponents learned from other workloads, None without.
        seed
            Seed for the choice of a subset of large sets.
        """
        center = float(np.median(configurations.log_duration))
        y = configurations.log_duration - center
        encoder = with_shares(encoder, configurations.features, y, seed)
        encoder = with_fading_trends(encoder, configurations.features, y, seed)
        encoder = with_level_spreads(encoder, configurations.features, y, seed)
        if prior is not None:
            encoder = with_exponents(encoder, prior)
        jitter = (
            None if configurations.jitter is None else configurations.jitter.relative_to(center)
        )
        return cls(encoder, encoder.encode(configurations.features), center, y, jitter)

    def used_axes(self) -> list[str]:
        """Return the numeric columns that regressors use."""
        return [feature.column for feature in self.encoder.numeric if feature.used]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a fit has found, before weights, calibration and report.

    Attributes
    ----------
    configurations
        What the regressors were fitted on.
    encoding
        The same as numbers.
    imputed
        The runs, with estimates for unfinished ones.
    regime_map
        The kinds of question.
    fitted, failed
        The regressors by name, and why others were left out.
    held_out
        Their forecasts of held-out configurations, by kind of question.
    prior
        What was learned from other workloads, None without.
    arms
        The regressors with and without this prior, and how they are weighted.
    memory_law, convergence, phases
        As in `FittedPortfolio`.
    """

    configurations: Configurations
    encoding: Encoding
    imputed: Imputed
    regime_map: RegimeMap
    fitted: Mapping[str, PortfolioRegressor]
    failed: Mapping[str, str]
    held_out: Mapping[str, HeldOut]
    prior: EncodedPrior | None
    arms: Arms
    memory_law: MemoryLaw | None
    convergence: ConvergenceLaw | None
    phases: PhaseLaw | None

    def finish(self, runs: RunTable, evidence: EvidenceReport) -> FittedPortfolio:
        """Return the portfolio, with weights and calibration for each kind of question.

        Parameters
        ----------
        runs
            The runs that the fit used, including those before a change point.
        evidence
            What the runs show besides durations.
        """
        source = {
            name: INTERPOLATION if kind == IRRELEVANT_AXIS else name
            for name, kind in self.regime_map.kinds.items()
        }
        interpolation = self._regime(INTERPOLATION, 1.0)
        surprise = self._surprise(interpolation.weights)
        regime_models = {
            name: interpolation if name == INTERPOLATION else self._regime(name, surprise)
            for name in source.values()
        }
        regimes = {name: regime_models[answering] for name, answering in source.items()}
        has_weight = np.any([regime.weights > 0 for regime in regimes.values()], axis=0)
        members = {
            name: member
            for (name, member), is_kept in zip(self.fitted.items(), has_weight, strict=True)
            if is_kept
        }
        reduced = {
            name: RegimeModel(
                regime.weights[has_weight], regime.residual_variances[has_weight], regime.curve
            )
            for name, regime in regimes.items()
        }
        encoder, encoded = self.encoding.encoder, self.encoding.encoded
        return FittedPortfolio(
            encoder=encoder,
            transfer=LevelTransfer.learn(
                encoder, encoded.X, encoded.codes, self.configurations.counts, self._effects()
            ),
            regime_map=self.regime_map,
            members=members,
            regimes=reduced,
            center=self.encoding.center,
            memory=self._memory(regimes[INTERPOLATION], runs.features),
            report=self._report(runs, regimes, evidence),
            memory_law=self.memory_law,
            convergence=self.convergence,
            phases=self.phases,
            jitter=self.encoding.jitter,
            placement=Placement.learn(self.configurations.features),
            noise_tails=self.configurations.noise_tails,
        )

    def _effects(self) -> dict[str, LevelEffects]:
        effects = {"gpu_type": specification_effects("gpu_type")}
        if self.prior is not None:
            layout, X = self.encoding.encoder.layout, self.encoding.encoded.X
            effects |= self.prior.effects(layout, X, self.encoding.y)
        columns = [category.column for category in self.encoding.encoder.categories]
        return {column: effects[column] for column in columns if column in effects}

    def _pooling(self) -> PoolingReport | None:
        return None if self.prior is None else self.prior.report

    def _surprise(self, weights: FloatArray) -> float:
        interpolation = self.held_out.get(INTERPOLATION)
        if interpolation is None:
            return 1.0
        return surprise_factor(*interpolation.scores(weights), interpolation.n_distinct)

    def _regime(self, name: str, surprise: float) -> RegimeModel:
        n, kind = len(self.configurations.keys), self.regime_map.kinds[name]
        held_out = self.held_out.get(name)
        interpolation = self.held_out.get(INTERPOLATION)
        weights = self.arms.weights(kind, name, held_out, interpolation)
        tested = held_out or interpolation
        variances = np.full(len(weights), UNTESTED_VARIANCE)
        if tested is not None:
            measured = tested.residual_variances()
            variances = np.where(np.isfinite(measured), measured, variances)
        is_pooled = uses_pool(list(self.fitted), weights)
        curve = prior_curve(kind, n, axis=name, is_pooled=is_pooled, surprise=surprise)
        if held_out is not None:
            curve = calibrate(
                *held_out.scores(weights),
                curve,
                kind=kind,
                n_configurations=n,
                n_distinct=held_out.n_distinct,
            )
        return RegimeModel(weights, variances, curve)

    def _memory(self, interpolation: RegimeModel, features: FeatureTable) -> Memory:
        held_out, keys = self.held_out.get(INTERPOLATION), self.configurations.keys
        forecasts = np.full(len(keys), UNBOUNDED)
        if held_out is not None:
            mean, _ = held_out.forecast(interpolation.weights)
            forecasts[held_out.rows] = self.encoding.center + mean
        known = {name for name, values in features.numeric.items() if not np.isnan(values).all()}
        known |= {
            name
            for name, values in features.categorical.items()
            if any(level is not None for level in values)
        }
        encoded = self.encoding.encoded
        return Memory(
            X=encoded.X,
            codes=encoded.codes.astype(np.float64),
            names=RunNames.of(keys, self.configurations.run_ids),
            held_out=forecasts,
            known_columns=frozenset(known),
            unfinished=np.array([key in self.imputed.keys for key in keys], dtype=np.bool_),
            ranges=self.configurations.ranges,
            half_widths=half_widths_of_repetitions(self.configurations),
        )

    def _report(
        self, runs: RunTable, regimes: Mapping[str, RegimeModel], evidence: EvidenceReport
    ) -> FitReport:
        configurations = self.configurations
        accuracy = {
            name: _mape(held_out, regimes[name].weights) for name, held_out in self.held_out.items()
        }
        return FitReport(
            n_runs=runs.n_runs,
            n_configurations=len(configurations.keys) - len(self.imputed.keys),
            candidates=self._candidates(regimes[INTERPOLATION].weights),
            accuracy_by_axis=accuracy,
            coverage=self._coverage(regimes),
            noise_floor=configurations.noise_variance**0.5 if configurations.noise_dof else None,
            numeric_ranges=measured_ranges(configurations.features),
            category_levels=measured_levels(configurations.features),
            training_fingerprint=fingerprint(self.imputed.runs, configurations),
            library_versions=library_versions(),
            failed_candidates=dict(self.failed),
            pooling=self._pooling(),
            evidence=self._evidence(evidence),
        )

    def _evidence(self, evidence: EvidenceReport) -> EvidenceReport:
        law = self.memory_law
        counts = None if law is None else law.counts
        return replace(evidence, memory=counts, unfinished=self.imputed.counts)

    def _candidates(self, weights: FloatArray) -> tuple[CandidateReport, ...]:
        by_axis = {name: held_out.candidate_mape() for name, held_out in self.held_out.items()}
        sizes = {name: held_out.n_distinct for name, held_out in self.held_out.items()}
        reports = []
        for index, name in enumerate(self.fitted):
            errors = {
                axis: float(mape[index])
                for axis, mape in by_axis.items()
                if np.isfinite(mape[index])
            }
            total = sum(sizes[axis] for axis in errors)
            weighted_sum = sum(sizes[axis] * error for axis, error in errors.items())
            overall = weighted_sum / total if total else math.nan
            reports.append(CandidateReport(name, float(weights[index]), overall, errors))
        return tuple(reports)

    def _coverage(self, regimes: Mapping[str, RegimeModel]) -> dict[str, float]:
        inside: dict[str, list[FloatArray]] = {"0.8": [], "0.9": []}
        for name, held_out in self.held_out.items():
            scores, _ = held_out.scores(regimes[name].weights)
            inside["0.8"].append(scores <= regimes[name].curve[AT_80])
            inside["0.9"].append(scores <= regimes[name].curve[AT_90])
        return {
            level: float(np.concatenate(parts).mean()) for level, parts in inside.items() if parts
        }


def _mape(held_out: HeldOut, weights: FloatArray) -> float:
    mean, _ = held_out.forecast(weights)
    share = held_out.weights / held_out.weights.sum()
    return float(np.abs(np.expm1(np.clip(mean - held_out.observed, -50, 50))) @ share)
