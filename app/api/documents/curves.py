"""Writes curves as JSON documents and as tables."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from app.api.documents.forecasts import Document, forecast_document
from app.api.schemas.quantities import plain_number, significant
from app.domain.curves import Curve, CurvePoint, MeasuredPoint
from app.domain.wording import (
    align,
    say_count,
    say_number,
    say_probabilities,
    say_rounded,
    say_seconds,
    say_share,
)


def _point(point: CurvePoint, now: datetime) -> Document:
    return {
        "value": plain_number(point.value),
        "forecast": forecast_document(point.forecast, now),
        "speed_up": significant(point.speed_up, 6),
        "efficiency": significant(point.efficiency, 6),
        "seconds_saved_per_money": significant(point.seconds_saved_per_money, 6),
    }


def _measured(point: MeasuredPoint) -> Document:
    return {
        "run_id": point.run_id,
        "value": plain_number(point.value),
        "duration_seconds": plain_number(point.duration_seconds),
    }


def curve_document(curve: Curve, now: datetime) -> Document:
    """Return the document of a curve."""
    return {
        "workload": curve.points[0].forecast.workload,
        "over": curve.axis.name,
        "points": [_point(point, now) for point in curve.points],
        "measured": [_measured(point) for point in curve.measured],
    }


def _row(point: Mapping[str, Any]) -> list[str]:
    forecast = point["forecast"]
    duration, cost = forecast["duration_seconds"], forecast["cost"]
    return [
        say_number(point["value"]),
        say_seconds(duration["median"]),
        f"{say_seconds(duration['lower'])} .. {say_seconds(duration['upper'])}",
        "-" if cost is None else f"{cost['median']} {cost['currency']}",
        *(
            "-" if point[name] is None else say_rounded(point[name])
            for name in ("speed_up", "efficiency", "seconds_saved_per_money")
        ),
        forecast["basis"],
    ]


def curve_text(document: Mapping[str, Any]) -> str:
    """Return a curve as an aligned table, with the warnings of its points below it."""
    from app.api.documents import plain_text  # noqa: PLC0415 - programs ask for JSON

    forecasts = [point["forecast"] for point in document["points"]]
    confidence = forecasts[0]["duration_seconds"]["confidence"]
    currencies = {forecast["cost"]["currency"] for forecast in forecasts if forecast["cost"]}
    header = [
        document["over"],
        "duration",
        f"{say_share(confidence)} interval",
        "cost",
        "speed-up",
        "efficiency",
        f"s saved per {currencies.pop() if len(currencies) == 1 else 'money'}",
        "basis",
    ]
    probabilities = [say_probabilities(point["forecast"]) for point in document["points"]]
    limits = list(dict.fromkeys(name for row in probabilities for name in row))
    rows = [
        _row(point) + [row.get(name, "-") for name in limits]
        for point, row in zip(document["points"], probabilities, strict=True)
    ]
    table = align([*header, *limits], rows)
    title = f"{document['workload']}, {say_count(len(document['measured']), 'run')} measured on"
    return f"{title} this axis\n\n{table}\n{plain_text.notes_on(forecasts)}"
