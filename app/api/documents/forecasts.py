"""Writes forecasts as JSON documents, by hand for speed: a batch has up to ten thousand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from app.api.schemas.quantities import money_text, number_text, plain_number, significant
from app.domain.ages import age
from app.domain.configurations import Configuration, ParameterValue, Scenario, Work
from app.domain.energy import EnergyForecast
from app.domain.forecasts import (
    CostForecast,
    Feasibility,
    Forecast,
    ForecastWarning,
    Interval,
    LedgerEntry,
    Lesson,
    LinkedRun,
    PurchaseOption,
    SupportReport,
    TargetForecast,
)
from app.domain.instants import instant_text
from app.domain.prices import Price
from app.domain.runs import RunStatus

if TYPE_CHECKING:
    from app.services.answering.rows import Answered

Document = dict[str, Any]


def _plain(value: float | None) -> float | None:
    return None if value is None else plain_number(value)


def configuration_document(configuration: Configuration) -> Document:
    """Return the document of a configuration."""
    return {
        "gpu_type": configuration.gpu_type,
        "instance_type": configuration.instance_type,
        "provider": configuration.provider,
        "region": configuration.region,
        "purchase": configuration.purchase,
        "nodes": configuration.nodes,
        "workers": configuration.workers,
    }


def _work_document(work: Work) -> Document:
    return {
        "dataset_size": _plain(work.dataset_size),
        "batch_size": _plain(work.batch_size),
        "epochs": _plain(work.epochs),
    }


def parameters_document(parameters: Mapping[str, ParameterValue]) -> Document:
    """Return the document of parameters; whole numbers lose their fraction."""
    return {
        name: value if isinstance(value, str) else plain_number(value)
        for name, value in parameters.items()
    }


def scenario_document(scenario: Scenario) -> Document:
    """Return the document of a configuration, its work and further parameters."""
    return {
        "configuration": configuration_document(scenario.configuration),
        "work": _work_document(scenario.work),
        "parameters": parameters_document(scenario.parameters),
    }


_price_text = lru_cache(maxsize=4096)(money_text)


@lru_cache(maxsize=4096)
def _price_document(price: Price, instances: int, age_days: int) -> Document:
    return {
        "source": price.source,
        "valid_from": instant_text(price.valid_from),
        "age_days": age_days,
        "purchase": price.purchase,
        "provider": price.provider,
        "region": price.region,
        "instance_type": price.instance_type,
        "gpu_type": price.gpu_type,
        "gpu_count": price.gpu_count,
        "instances": instances,
        "price_id": price.price_id,
    }


def _conversion_document(cost: CostForecast, now: datetime) -> Document | None:
    conversion = cost.conversion
    if conversion is None or cost.listed_per_hour is None:
        return None
    return {
        "from_currency": conversion.from_currency,
        "to_currency": conversion.to_currency,
        "rate": number_text(conversion.rate),
        "valid_from": instant_text(conversion.valid_from),
        "age_days": max(age(conversion.valid_from, now).days, 0),
        "source": conversion.source,
        "listed_price_per_hour": _price_text(cost.listed_per_hour),
    }


def cost_document(cost: CostForecast, now: datetime) -> Document:
    """Return the document of a cost; the median has as many decimals as its items."""
    price = cost.price
    return {
        "currency": cost.currency,
        "median": format(cost.median, "f"),
        "lower": format(cost.lower, "f"),
        "upper": format(cost.upper, "f"),
        "price_per_hour": _price_text(price.price_per_hour),
        "price": {
            **_price_document(price, cost.instances, max(age(price.valid_from, now).days, 0)),
            "others": [
                {
                    "instance_type": other.instance_type,
                    "gpu_count": other.gpu_count,
                    "instances": instances,
                    "price_per_hour": _price_text(other.price_per_hour),
                    "price_id": other.price_id,
                }
                for other, instances in cost.others
            ],
        },
        "conversion": _conversion_document(cost, now),
        "line_items": [
            {
                "kind": item.kind,
                "quantity": number_text(item.quantity),
                "unit": item.unit,
                "unit_price": _price_text(item.unit_price),
                "amount": format(item.amount, "f"),
            }
            for item in cost.line_items
        ],
    }


def support_document(support: SupportReport) -> Document:
    """Return the document of a forecast's support by runs."""
    return {
        "within_range": support.within_range,
        "axes": [
            {
                "name": axis.name,
                "asked": axis.asked,
                "measured_min": axis.measured_min,
                "measured_max": axis.measured_max,
                "distance": axis.distance,
            }
            for axis in support.axes
        ],
        "unseen_levels": [{"name": name, "value": value} for name, value in support.unseen_levels],
        "rare_levels": [{"name": name, "value": value} for name, value in support.rare_levels],
        "unidentified": list(support.unidentified),
        "runs_used": support.runs_used,
        "nearest_runs": list(support.nearest_runs),
        "pooled_from": list(support.pooled_from),
        "factory_prior": support.factory_prior,
    }


MEMBERS: "Final[Mapping[str, Callable[[Forecast | Answered, datetime], Any]]]" = {
    "forecast_id": lambda forecast, _: forecast.forecast_id,
    "workload": lambda forecast, _: forecast.workload,
    "regressor_version": lambda forecast, _: forecast.regressor_version,
    "fitted_at": lambda forecast, _: instant_text(forecast.fitted_at),
    "configuration": lambda forecast, _: configuration_document(forecast.scenario.configuration),
    "work": lambda forecast, _: _work_document(forecast.scenario.work),
    "parameters": lambda forecast, _: parameters_document(forecast.scenario.parameters),
    "duration_seconds": lambda forecast, _: band_document(forecast.duration_seconds),
    "time_limit_seconds": lambda forecast, _: plain_number(forecast.time_limit_seconds),
    "cost": lambda forecast, now: _cost_or_none(forecast.cost, now),
    "feasibility": lambda forecast, _: _feasibility_document(forecast.feasibility),
    "probability": lambda forecast, _: {
        "deadline": forecast.deadline_probability,
        "budget": forecast.budget_probability,
    },
    "support": lambda forecast, _: support_document(forecast.support),
    "basis": lambda forecast, _: forecast.basis,
    "to_target": lambda forecast, now: _target_document(forecast.to_target, now),
    "energy": lambda forecast, _: energy_document(forecast.energy),
    "spot": lambda forecast, _: None if forecast.spot is None else asdict(forecast.spot),
    "purchases": lambda forecast, _: [_option_document(each) for each in forecast.purchases],
    "explanation": lambda forecast, _: [
        {"term": term, "share": share} for term, share in forecast.explanation.items()
    ],
    "explained_by": lambda forecast, _: forecast.explained_by,
    "taught_by": lambda forecast, _: _lessons(forecast.taught_by),
    "warnings": lambda forecast, _: warning_documents(forecast.warnings),
}
"""The writer of each member of a forecast's document, in the order of the contract."""

FORECAST_MEMBERS: Final = tuple(MEMBERS)
"""The members of a forecast's document."""


def forecast_document(forecast: "Forecast | Answered", now: datetime) -> Document:
    """Return the document of a forecast."""
    return {name: write(forecast, now) for name, write in MEMBERS.items()}


def _cost_or_none(cost: CostForecast | None, now: datetime) -> Document | None:
    return None if cost is None else cost_document(cost, now)


def _feasibility_document(feasibility: Feasibility) -> Document:
    return {"fits_probability": feasibility.fits_probability, "basis": feasibility.basis}


def band_document(interval: Interval) -> Document:
    """Return the document of a median with its bounds."""
    return {
        "median": interval.median,
        "lower": interval.lower,
        "upper": interval.upper,
        "confidence": interval.confidence,
    }


def rounded_band(interval: Interval | None) -> Document | None:
    """Return the document of a median with its bounds to seven digits, None for no interval."""
    if interval is None:
        return None
    return {
        "median": significant(interval.median, 7),
        "lower": significant(interval.lower, 7),
        "upper": significant(interval.upper, 7),
        "confidence": interval.confidence,
    }


def warning_documents(warnings: Sequence[ForecastWarning]) -> list[Document]:
    """Return the documents of warnings."""
    return [
        {"code": warning.code, "message": warning.message, "remedy": warning.remedy}
        for warning in warnings
    ]


def _target_document(target: TargetForecast | None, now: datetime) -> Document | None:
    if target is None:
        return None
    return {
        "samples": band_document(target.samples),
        "epochs": band_document(target.epochs),
        "duration_seconds": band_document(target.duration_seconds),
        "cost": _cost_or_none(target.cost, now),
    }


def _lessons(taught_by: Sequence[Lesson] | None) -> list[Document] | None:
    if taught_by is None:
        return None
    return [
        {"run_ids": list(lesson.run_ids), "influence": lesson.influence, "about": lesson.about}
        for lesson in taught_by
    ]


def energy_document(energy: EnergyForecast) -> Document:
    """Return the document of energy and carbon; the figures have four significant digits."""
    factor, draw = energy.factor, energy.draw
    return {
        "kilowatt_hours": significant(energy.kilowatt_hours, 4),
        "kg_co2e": significant(energy.kg_co2e, 4),
        "watts_per_worker": None if draw is None else significant(draw.watts, 4),
        "basis": None if draw is None else draw.basis,
        "power_usage_effectiveness": energy.power_usage_effectiveness,
        "kg_co2e_per_kwh": energy.kg_co2e_per_kwh,
        "grid_factor": None
        if factor is None
        else {
            "provider": factor.provider,
            "region": factor.region,
            "valid_from": instant_text(factor.valid_from),
            "source": factor.source,
        },
        "reason": energy.reason,
    }


def _option_document(option: PurchaseOption) -> Document:
    duration, cost = option.duration_seconds, option.cost
    return {
        "purchase": option.purchase,
        "duration_seconds": None if duration is None else asdict(duration),
        "cost": None
        if cost is None
        else {
            "currency": cost.currency,
            "median": format(cost.median, "f"),
            "lower": format(cost.lower, "f"),
            "upper": format(cost.upper, "f"),
            "price_per_hour": _price_text(cost.price_per_hour),
        },
        "refused": option.refused,
    }


def ledger_document(entry: LedgerEntry) -> Document:
    """Return the document of a recorded forecast with its runs and their errors."""
    return {
        "forecast_id": entry.forecast_id,
        "workload": entry.workload,
        "regressor_version": entry.regressor_version,
        "created_at": instant_text(entry.created_at),
        "request": dict(entry.request),
        "forecast": dict(entry.answer),
        "runs": [_linked(run, entry.answer["duration_seconds"]) for run in entry.runs],
    }


def _linked(run: LinkedRun, band: Mapping[str, float]) -> Document:
    is_comparable = run.status is RunStatus.SUCCEEDED and not run.differs_in
    ratio = run.duration_seconds / band["median"]
    inside = band["lower"] <= run.duration_seconds <= band["upper"]
    return {
        "run_id": run.run_id,
        "workload": run.workload,
        "status": run.status,
        "duration_seconds": plain_number(run.duration_seconds),
        "differs_in": run.differs_in,
        "ratio": ratio if is_comparable else None,
        "error": 1.0 / ratio - 1.0 if is_comparable else None,
        "inside": inside if is_comparable else None,
    }
