"""The accuracy of a workload's forecasts as sentences and a table."""

from app.domain.accuracy import AccuracyFigures, AccuracyReport, DriftReport
from app.domain.wording import align, say_change, say_count, say_seconds

_SOURCES = {
    "named": "recorded, named by the run",
    "matched": "recorded, same configuration",
    "standing": "regressor of that time",
}
_LEVELS = ("0.8", "0.9")


def accuracy_text(report: AccuracyReport) -> str:
    """Return the report as plain text for people who use curl."""
    span = say_seconds((report.end - report.start).total_seconds())
    if report.overall is None:
        return (
            f"{report.workload}: no run of the last {span} could be compared with an earlier"
            f" forecast ({report.not_judged} not judged).\n"
            "Upload runs after a regressor is published; name the forecast with forecast_id.\n"
        )
    lines = [
        f"{report.workload}: forecasts against the runs of the last {span}",
        "",
        _table(report),
    ]
    if report.not_judged:
        unjudged = say_count(report.not_judged, "run")
        lines += ["", f"{unjudged} had no earlier forecast."]
    if report.drift is not None:
        lines += ["", _drift_sentence(report.drift)]
    return "\n".join(lines) + "\n"


def _table(report: AccuracyReport) -> str:
    groups: list[tuple[str, AccuracyFigures | None]] = [
        ("all", report.overall),
        ("inside the measured range", report.within_range),
        ("outside of it", report.outside_range),
        *((_SOURCES[source], figures) for source, figures in report.by_source.items()),
    ]
    header = ["runs compared", "runs", "error", "bias"]
    header += [f"inside {float(level):.0%}" for level in _LEVELS]
    return align(header, [_row(name, figures) for name, figures in groups if figures is not None])


def _row(name: str, figures: AccuracyFigures) -> list[str]:
    shares = [f"{figures.coverage[level]:.1%}" for level in _LEVELS]
    return [name, str(figures.runs), f"{figures.mape:.1%}", say_change(figures.bias), *shares]


def _drift_sentence(drift: DriftReport) -> str:
    if drift.alarm is None or drift.since is None:
        return f"No drift (statistic {drift.statistic:.1f} of {drift.threshold:.1f})."
    return (
        f"Drift: runs are {abs(drift.change_ratio - 1):.0%} {drift.direction} since"
        f" {drift.since.created_at:%Y-%m-%d %H:%M} UTC (run {drift.since.run_id}; alarm by"
        f" {drift.alarm.run_id}). Find the cause, or fit again to accept it as the new normal."
    )
