"""Prints forecasts, recommendations and workloads for people."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from app.cli.output import SHOWN_FAULTS, out, print_note, print_table
from app.cli.remedies import in_cli_words
from app.cli.wording import interval, money, percent
from app.domain.flat_fields import say_members
from app.domain.wording import (
    PROBABILITIES,
    gather_warnings,
    say_capacity,
    say_count,
    say_objective,
    say_parts,
    say_probabilities,
    say_rejected,
    say_seconds,
    say_share,
    say_workers,
)


def _split_columns(questions: list[dict[str, str]]) -> tuple[dict[str, str], list[str]]:
    """Return the fields that all forecasts share, and the names of those that differ."""
    names = list(dict.fromkeys(name for row in questions for name in row))
    if len(questions) == 1:
        return questions[0], []
    shared = {
        name: questions[0][name] for name in names if len({row.get(name) for row in questions}) == 1
    }
    return shared, [name for name in names if name not in shared]


def _row(
    forecast: Mapping[str, Any], question: Mapping[str, str], names: list[str], objective: str
) -> dict[str, object]:
    band = forecast["duration_seconds"]
    return {
        **{name: question.get(name) for name in names},
        "duration": say_seconds(band["median"]),
        f"{say_share(band['confidence'])} interval": interval(band),
        "cost": money(forecast.get("cost")),
        "basis": forecast["basis"],
        **say_objective(objective, forecast),
        **_optional_columns(forecast),
    }


def _optional_columns(forecast: Mapping[str, Any]) -> dict[str, object]:
    """Return the optional columns, with None for what was not requested."""
    parts = None if forecast.get("taught_by") is None else say_parts(forecast) or None
    return {
        **dict.fromkeys(PROBABILITIES.values()),
        **say_probabilities(forecast),
        "where the time goes": parts,
    }


def show_forecasts(forecasts: list[dict[str, Any]], objective: str = "") -> None:
    """Print forecasts: shared fields in a line, differing ones in a table, each warning once."""
    questions = [say_members(forecast) for forecast in forecasts]
    shared, names = _split_columns(questions)
    if shared:
        print_note("For " + ", ".join(f"{name} {value}" for name, value in shared.items()) + ":")
    rows = [
        _row(forecast, row, names, objective)
        for forecast, row in zip(forecasts, questions, strict=True)
    ]
    empty_columns = {name for name in rows[0] if all(row[name] is None for row in rows)}
    print_table([{k: v for k, v in row.items() if k not in empty_columns} for row in rows])
    _show_warnings(forecasts)


def _show_warnings(forecasts: list[dict[str, Any]]) -> None:
    def say(warning: Mapping[str, Any], count: int) -> str:
        others = f" The same applies to {count - 1:,} more of the {len(forecasts):,}."
        text = f"Warning: {warning['message']} {warning.get('remedy') or ''}".rstrip()
        return in_cli_words(text) + (others if count > 1 else "")

    for line in gather_warnings(forecasts, say):
        print_note(line)


def say_configuration(configuration: Mapping[str, Any]) -> str:
    """Return a configuration in a few words."""
    workers = configuration.get("workers") or 1
    instance, gpu = configuration.get("instance_type"), configuration.get("gpu_type")
    further = [*([instance] if instance else []), *say_capacity(configuration)]
    return say_workers(workers, gpu) + (f" ({', '.join(further)})" if further else "")


def _sentence(forecast: Mapping[str, Any]) -> str:
    band = forecast["duration_seconds"]
    return (
        f"{say_configuration(forecast['configuration'])}: {say_seconds(band['median'])}"
        f" ({say_share(band['confidence'])} interval {interval(band)}),"
        f" cost {money(forecast.get('cost'))}"
    )


def show_recommendation(answer: Mapping[str, Any]) -> None:
    """Print the recommended and next best configurations, or what would have to change."""
    if answer["recommended"] is not None:
        out.print(f"Recommended: {_sentence(answer['recommended']['forecast'])}", markup=False)
        show_forecasts([entry["forecast"] for entry in answer["ranked"]], answer["objective"])
        return
    out.print(f"None of the {answer['considered']} considered meets the request.")
    print_note(say_rejected(answer["rejected_by_reason"]))
    if answer["nearest"] is not None:
        out.print(f"Nearest: {_sentence(answer['nearest']['forecast'])}", markup=False)
        for change in answer["nearest"]["changes"]:
            print_note(f"  {in_cli_words(change['message'])}")


def show_fit(fit: Mapping[str, Any]) -> None:
    """Print how a fit ended and the weights of its candidates."""
    version = fit.get("regressor_version")
    print_note(f"Fit {fit['fit_id']} of {fit['workload']} {fit['state']}: version {version}.")
    print_table(
        [
            {
                "regressor": candidate["regressor"],
                "weight": percent(candidate["weight"]),
                "error (MAPE)": percent(candidate["mape"]),
            }
            for candidate in fit.get("candidates") or []
        ]
    )


def show_workloads(workloads: Iterable[Mapping[str, Any]]) -> None:
    """Print one line per workload."""
    print_table(
        [
            {
                "workload": workload["workload"],
                "runs": sum(workload["runs"].values()),
                "published version": workload["published_version"],
                "dataset unit": workload["dataset_unit"],
                "description": workload["description"],
            }
            for workload in workloads
        ]
    )


def show_upload(name: str, answer: Mapping[str, Any]) -> None:
    """Print what an upload stored."""
    created = answer.get("created", 0)
    duplicates = say_count(answer.get("duplicates", 0), "duplicate")
    if answer.get("dry_run"):
        print_note(f"{name}: {created} to be created, {duplicates}; none was stored.")
    else:
        print_note(f"{name}: {created} created, {duplicates}.")
    if answer.get("invalid_count"):
        print_note(f"Skipped {say_count(answer['invalid_count'], 'invalid row')}:")
        faults = answer["invalid"]
        for fault in faults[:SHOWN_FAULTS]:
            field = f", {fault['field']}" if fault.get("field") else ""
            print_note(f"  row {fault['row']}{field}: {fault['message']}")
        if len(faults) > SHOWN_FAULTS:
            print_note(f"  ... and {len(faults) - SHOWN_FAULTS} more; --json prints them.")
    for warning in answer.get("warnings") or []:
        print_note(f"Warning: {warning['message']}")
    if answer["replayed"]:
        print_note(
            "This same file was uploaded before: the answer is that of the first time, nothing"
            " was stored again. --again uploads it once more."
        )


def show_unsent(failed: Path, others: Sequence[Path]) -> None:
    """Print which file stopped an upload, and which files were not sent because of it."""
    if others:
        names = ", ".join(str(other) for other in others)
        print_note(f"{failed} was not stored. Not sent after it: {names}.")
