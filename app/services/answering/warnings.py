"""What a caller should know before relying on a forecast's figures."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from math import exp
from typing import Final

from app.domain.ages import age
from app.domain.columns import Repeated
from app.domain.configurations import Configuration
from app.domain.forecasts import ForecastWarning
from app.domain.grid_factors import GridFactor
from app.domain.prices import PriceQuery
from app.domain.spelling import folded
from app.domain.wording import say_count, say_factor, say_number, say_probability
from app.pricing.currencies import is_stale_rate
from app.pricing.grid import is_stale_factor
from app.pricing.holding import is_stale
from app.pricing.offers import Offer
from app.pricing.price_index import gpu_names
from app.pricing.resolution import PriceBook
from app.services.served_regressors import ServedRegressor
from app.services.tables.machine_sizes import statable_columns
from models import Departure, Support, SupportColumns

FEW_CONFIGURATIONS: Final = 5
_MAX_NAMED: Final = 3
_MAX_RANGES: Final = 1024
"""Texts of measured ranges that are cached: many questions leave the same one."""

_SEPARATORS: Final = str.maketrans("", "", " -_")
_FEW_RUNS_REMEDY: Final = "Upload runs of further configurations and fit again."


class Warnings:
    """Warnings of many forecasts by one regressor; those on the regressor itself are made once."""

    def __init__(self, served: ServedRegressor, book: PriceBook, now: datetime) -> None:
        self._served, self._book, self._now = served, book, now
        self._has_outliers = bool(served.portfolio.report.evidence.outliers)
        self._on_regressor = tuple(_on_regressor(served))

    def of_rows(
        self,
        on_grounds: Repeated[tuple[ForecastWarning, ...]],
        supports: SupportColumns,
        fits_probability: Sequence[float | None],
        confidence: Sequence[float],
    ) -> Repeated[tuple[ForecastWarning, ...]]:
        """Return each row's warnings: on memory, on its duration, then those of `on_grounds`."""
        # Most rows have no warnings but those on their grounds.
        pairs = enumerate(zip(fits_probability, confidence, strict=True))
        doubtful = [row for row, (fits, level) in pairs if fits is not None and fits < level]
        rows = range(len(on_grounds)) if self._has_outliers else {*doubtful, *supports.outside}
        distinct, places = list(on_grounds.distinct), on_grounds.places[:]
        for row in rows:
            grounds, support = on_grounds[row], supports.of(row)
            places[row] = len(distinct)
            distinct.append(self._of(grounds, support, fits_probability[row], confidence[row]))
        return Repeated(distinct, places)

    def _of(
        self,
        on_grounds: tuple[ForecastWarning, ...],
        support: Support,
        fits_probability: float | None,
        confidence: float,
    ) -> tuple[ForecastWarning, ...]:
        on_outliers = _on_outliers(support, self._served) if self._has_outliers else ()
        levels = self._served.portfolio.report.category_levels
        own = on_question(fits_probability, confidence, support, levels)
        return (*own, *on_outliers, *on_grounds)

    def on_grounds(
        self,
        configuration: Configuration,
        pricing: PriceQuery,
        offer: Offer | None,
        factor: GridFactor | None,
    ) -> tuple[ForecastWarning, ...]:
        """Return the warnings on the regressor, on cost and on carbon."""
        as_of = pricing.as_of or self._now
        return (
            *self._on_regressor,
            *_on_contradictions(configuration, pricing),
            *(_on_price(configuration, offer, as_of) if offer else self._on_unknown(configuration)),
            *_on_factor(factor, as_of),
        )

    def _on_unknown(self, configuration: Configuration) -> Iterator[ForecastWarning]:
        """Warn of an unknown price; if the machine has another GPU, that is why."""
        gpu, instance = configuration.gpu_type, configuration.instance_type
        message = "No price is known for this configuration"
        remedy = "Give pricing.price_per_hour, or store a price with POST /v1/prices."
        if not (gpu or instance):
            # Every stored price is of a machine or a GPU.
            remedy = "Give pricing.price_per_hour, or name gpu_type or instance_type."
        sold = self._book.gpu_types_of(instance) if gpu and instance else set()
        if sold and not any(set(gpu_names(gpu)) & set(gpu_names(name)) for name in sold):
            has = ", ".join(sorted(sold))
            message += f": {instance} has {has}, not {gpu}"
            remedy = f"Name the GPU of the machine, or leave gpu_type out. {remedy}"
        yield ForecastWarning("price_unknown", f"{message}.", remedy)


def on_question(
    fits_probability: float | None,
    confidence: float,
    departure: Departure | Support | None,
    measured: Mapping[str, Sequence[str]],
) -> Iterator[ForecastWarning]:
    """Yield the warnings that depend on nothing but the question and the measured runs.

    Parameters
    ----------
    fits_probability
        The probability that the job fits into memory; None or NaN where unknown.
    confidence
        Below this probability, a job may not fit.
    departure
        Where the question leaves what was measured; None within all of it.
    measured
        The measured levels of each category.
    """
    yield from _on_memory(fits_probability, confidence)
    if departure is not None:
        yield from _on_departure(departure, measured)


def _on_departure(
    departure: Departure | Support, measured: Mapping[str, Sequence[str]]
) -> Iterator[ForecastWarning]:
    if departure.axes:
        listed = "; ".join(
            f"{axis.name} {say_number(axis.asked)} {_beyond(axis.measured_min, axis.measured_max)}"
            for axis in departure.axes
        )
        yield ForecastWarning(
            "beyond_range",
            f"{listed}.",
            "The interval is widened; measure a run nearer to the question and fit again.",
        )
    if departure.unseen_levels:
        listed = ", ".join(
            f"{name} {level!r}{_other_spelling(level, measured.get(name, ()))}"
            for name, level in departure.unseen_levels
        )
        yield ForecastWarning(
            "unseen_level",
            f"Never measured for this workload: {listed}.",
            "The interval is widened; measure a run with it and fit again.",
        )
    unidentified = statable_columns(departure.unidentified)
    if unidentified:
        yield ForecastWarning(
            "unidentified",
            f"The runs cannot show the effect of {', '.join(unidentified)}:"
            " not given here, never varied, or varied only together.",
            "Give every feature that the runs have; measure runs that vary them one at a time.",
        )


@lru_cache(maxsize=_MAX_RANGES)
def _beyond(measured_min: float, measured_max: float) -> str:
    least, most = say_number(measured_min), say_number(measured_max)
    measured = f"one measured value, {least}" if least == most else f"measured {least} to {most}"
    return f"lies outside the {measured}"


def _other_spelling(level: str, measured: Sequence[str]) -> str:
    """Return the measured levels that differ only by case, encoding, spaces and hyphens."""
    variants = [repr(other) for other in measured if _normalized(other) == _normalized(level)]
    return f" ({' and '.join(variants)} was measured; spelling matters)" if variants else ""


def _normalized(level: str) -> str:
    return folded(level.translate(_SEPARATORS))


def _on_memory(fits_probability: float | None, confidence: float) -> Iterator[ForecastWarning]:
    if fits_probability is not None and fits_probability < confidence:
        yield ForecastWarning(
            "may_not_fit",
            "The job fits into GPU memory with a probability of"
            f" {say_probability(fits_probability)}.",
            "Take a smaller batch per worker, less precision, or a GPU with more memory.",
        )


def _on_outliers(support: Support, served: ServedRegressor) -> Iterator[ForecastWarning]:
    nearest = set(support.nearest_run_ids)
    outliers = [
        outlier
        for outlier in served.portfolio.report.evidence.outliers
        if nearest & {outlier.run_id, outlier.beside}
    ]
    if outliers:
        listed = ", ".join(
            f"{outlier.run_id} ({say_factor(float(f'{outlier.ratio:.2g}'))} times as long)"
            for outlier in outliers[:_MAX_NAMED]
        )
        yield ForecastWarning(
            "outliers_nearby",
            f"{len(outliers)} of the nearest runs took a time far from what the others suggest:"
            f" {listed}.",
            "They count less; exclude them (PATCH /v1/runs/{run}) if something went wrong there.",
        )


def _on_regressor(served: ServedRegressor) -> Iterator[ForecastWarning]:
    report = served.portfolio.report
    if report.n_configurations < FEW_CONFIGURATIONS:
        yield ForecastWarning(
            "few_runs",
            f"The regressor rests on {say_count(report.n_runs, 'run')} of"
            f" {say_count(report.n_configurations, 'configuration')}.",
            _FEW_RUNS_REMEDY,
        )
    if report.evidence.change_points:
        last = report.evidence.change_points[-1]
        day = datetime.fromtimestamp(last.at, UTC).date().isoformat()
        yield ForecastWarning(
            "durations_shifted",
            f"Since {day} all runs have taken {say_factor(exp(last.shift))} times as long as"
            " before; earlier runs are adjusted by that factor.",
            "Fit again with runs_since when there are enough newer runs.",
        )
    if served.is_stale:
        yield ForecastWarning(
            "stale_regressor",
            f"The database does not answer; a newer version than {served.version} may be"
            " published.",
            "Ask again later.",
        )


def _on_contradictions(
    configuration: Configuration, pricing: PriceQuery
) -> tuple[ForecastWarning, ...]:
    # Nearly every question names each of these at most once, which this checks fastest.
    if (
        (pricing.provider is None or configuration.provider is None)
        and (pricing.region is None or configuration.region is None)
        and (pricing.purchase is None or configuration.purchase is None)
    ):
        return ()
    pairs = (
        ("provider", configuration.provider, pricing.provider),
        ("region", configuration.region, pricing.region),
        ("purchase", configuration.purchase, pricing.purchase),
    )
    contradictions = [
        f"pricing.{name} {priced}, not for configuration.{name} {configured}"
        for name, configured, priced in pairs
        if configured is not None
        and priced is not None
        and configured.casefold() != priced.casefold()
    ]
    if not contradictions:
        return ()
    return (
        ForecastWarning(
            "pricing_overrules",
            f"The bill is for {'; for '.join(contradictions)}.",
            "Name it once, in the configuration or in pricing.",
        ),
    )


def _on_price(
    configuration: Configuration, offer: Offer, as_of: datetime
) -> Iterator[ForecastWarning]:
    yield from _on_currency(offer, as_of)
    if is_stale(offer.price, as_of):
        age_days = age(offer.price.valid_from, as_of).days
        yield ForecastWarning(
            "stale_price",
            f"The price is {age_days} days old ({offer.price.source}).",
            "Check it with the provider; store the current one with POST /v1/prices.",
        )
    gpu_count, nodes = offer.price.gpu_count, configuration.nodes
    workers = configuration.workers
    # A price without an instance type is per worker or GPU: it says nothing about nodes.
    is_of_machine = offer.price.instance_type is not None and offer.price.serverless is None
    if is_of_machine and gpu_count and nodes and gpu_count * nodes < workers:
        yield ForecastWarning(
            "workers_exceed_gpus",
            f"The duration is for {say_count(workers, 'worker')} on"
            f" {say_count(nodes, 'node')}; the machines billed have {say_count(gpu_count, 'GPU')}"
            " each.",
            "Give the number of nodes that the workers are to run on; each worker is one GPU.",
        )


def _on_currency(offer: Offer, as_of: datetime) -> Iterator[ForecastWarning]:
    own, requested, conversion = offer.price.currency, offer.asked_currency, offer.conversion
    if not offer.is_as_asked:
        yield ForecastWarning(
            "currency_not_converted",
            f"The price is in {own}; no exchange rate to {requested} is known for that day.",
            f"Store one with POST /v1/exchange-rates, or ask with pricing.currency {own}.",
        )
    if conversion is not None and is_stale_rate(conversion, as_of):
        age_days = age(conversion.valid_from, as_of).days
        yield ForecastWarning(
            "stale_exchange_rate",
            f"The exchange rate from {conversion.from_currency} to {conversion.to_currency} is"
            f" {age_days} days old ({conversion.source}).",
            "Store the current one with POST /v1/exchange-rates.",
        )


def _on_factor(factor: GridFactor | None, as_of: datetime) -> Iterator[ForecastWarning]:
    if factor is not None and is_stale_factor(factor, as_of):
        place = " ".join(name for name in (factor.provider, factor.region) if name is not None)
        yield ForecastWarning(
            "stale_grid_factor",
            f"The grid factor{f' of {place}' if place else ''} is"
            f" {age(factor.valid_from, as_of).days} days old ({factor.source}).",
            "Store the current one with POST /v1/grid-factors, or give energy.kg_co2e_per_kwh.",
        )
