"""Writes forecasts as CSV; the question has the columns of an upload."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.flat_fields import CONFIGURATION, PARAMETER, WORK
from app.services.uploads.formulas import guard_formula

Document = Mapping[str, Any]
_ANSWER = (
    "duration_seconds",
    "duration_lower",
    "duration_upper",
    "confidence",
    "time_limit_seconds",
    "cost",
    "cost_lower",
    "cost_upper",
    "currency",
    "price_per_hour",
    "instances",
    "basis",
    "within_range",
    "warnings",
    "deadline_probability",
    "budget_probability",
)


def forecast_csv(forecasts: Sequence[Document]) -> str:
    """Return forecasts as CSV text, one row each."""
    names = dict.fromkeys(name for forecast in forecasts for name in forecast["parameters"])
    parameters = [PARAMETER + name for name in names]
    buffer = io.StringIO()
    columns = ["workload", *CONFIGURATION, *WORK, *parameters, *_ANSWER]
    writer = csv.DictWriter(buffer, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(_row(forecast) for forecast in forecasts)
    return buffer.getvalue()


def _row(forecast: Document) -> dict[str, object]:
    duration, cost = forecast["duration_seconds"], forecast["cost"] or {}
    parameters = {PARAMETER + name: value for name, value in forecast["parameters"].items()}
    flat = {
        "workload": forecast["workload"],
        **forecast["configuration"],
        **forecast["work"],
        **parameters,
        "duration_seconds": duration["median"],
        "duration_lower": duration["lower"],
        "duration_upper": duration["upper"],
        "confidence": duration["confidence"],
        "time_limit_seconds": forecast["time_limit_seconds"],
        "cost": cost.get("median"),
        "cost_lower": cost.get("lower"),
        "cost_upper": cost.get("upper"),
        "currency": cost.get("currency"),
        "price_per_hour": cost.get("price_per_hour"),
        "instances": cost["price"]["instances"] if cost else None,
        "basis": str(forecast["basis"]),
        "within_range": str(forecast["support"]["within_range"]).lower(),
        "warnings": " ".join(entry["code"] for entry in forecast["warnings"]),
        "deadline_probability": forecast["probability"]["deadline"],
        "budget_probability": forecast["probability"]["budget"],
    }
    return {name: _cell(value) for name, value in flat.items()}


def _cell(value: object) -> object:
    if value is None:
        return ""
    return guard_formula(str(value)) if isinstance(value, str) else value
