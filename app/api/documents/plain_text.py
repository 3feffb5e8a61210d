"""Forecasts and recommendations as sentences and aligned tables, for people who use curl."""

from collections.abc import Mapping, Sequence
from decimal import Context
from typing import Any

from app.api.schemas.quantities import money_text
from app.domain.flat_fields import CONFIGURATION, PARAMETER, WORK, say_members
from app.domain.wording import (
    align,
    gather_warnings,
    say_amount,
    say_capacity,
    say_change,
    say_count,
    say_enough_seconds,
    say_name,
    say_objective,
    say_parts,
    say_probabilities,
    say_rejected,
    say_rounded,
    say_seconds,
    say_share,
    say_workers,
)

Document = Mapping[str, Any]
_CATEGORIES = CONFIGURATION[:5]
_SHOWN_LESSONS = 3
_SIX_DIGITS = Context(prec=6)
_BASIS = {
    "measured": "this configuration was measured",
    "interpolated": "inside the measured range",
    "extrapolated": "beyond the measured range",
    "transferred": "few or no runs with this type or setting: learned from others",
    "prior": "hardly anything similar was measured",
}


def _basis_meaning(forecast: Document) -> str:
    """Return what a basis means, naming the types or settings that few or no runs have."""
    support, basis = forecast["support"], forecast["basis"]
    levels = [*support["unseen_levels"], *support["rare_levels"]]
    if basis != "transferred" or not levels:
        return _BASIS.get(basis, "")
    listed = ", ".join(f"{level['name']} {level['value'] or 'not given'}" for level in levels)
    return f"few or no runs with {listed}: learned from others"


def _hardware(forecast: Document) -> str:
    configuration = forecast["configuration"]
    workers, nodes = configuration.get("workers") or 1, configuration.get("nodes") or 1
    on_nodes = f" on {say_count(nodes, 'node')}" if nodes > 1 else ""
    instance, gpu = configuration.get("instance_type"), configuration.get("gpu_type")
    suffix = f" ({instance})" if instance and instance != gpu else ""
    return say_workers(workers, gpu) + suffix + on_nodes


def _cost_sentence(cost: Document | None) -> str:
    if cost is None:
        return "The cost is unknown: no price was found."
    price = cost["price"]
    instances = price.get("instances") or 1
    origin = "given with the question" if price["source"] == "inline" else price["source"]
    details = [*_price_origin(price), origin, price["valid_from"][:10]]
    multiple = f"{instances:,} x " if instances > 1 else ""
    others = "".join(
        f" and {other['instances']:,} x {_hourly(other)} ({other['instance_type']})"
        for other in price.get("others") or ()
    )
    return (
        f"It costs about {cost['median']} {cost['currency']} ({cost['lower']} to {cost['upper']})"
        f" at {multiple}{_hourly(cost)} {cost['currency']} an hour"
        f" ({', '.join(details)}){others}.{_conversion_sentence(cost.get('conversion'))}"
    )


def _hourly(priced: Document) -> str:
    """Return a price of an hour: one that was converted has all digits of the quotient."""
    return money_text(_SIX_DIGITS.create_decimal(priced["price_per_hour"]))


def _price_origin(price: Document) -> list[str]:
    """Return what is billed, where and how it is sold, as far as the price says."""
    unit = price.get("instance_type") or price.get("gpu_type")
    return [*([unit] if unit else []), *say_capacity(price)]


def _conversion_sentence(conversion: Document | None) -> str:
    if conversion is None:
        return ""
    return (
        f" That is {conversion['listed_price_per_hour']} {conversion['from_currency']} at"
        f" {conversion['rate']} ({conversion['source']}, {conversion['valid_from'][:10]})."
    )


def _spot_sentences(forecast: Document) -> list[str]:
    lines = []
    spot = forecast.get("spot")
    if spot is not None:
        best = spot["optimal_checkpoint_interval_s"]
        advice = "" if best is None else f"; a checkpoint every {say_seconds(best)} would be best"
        lines.append(
            f"{say_rounded(spot['expected_interruptions'])} interruptions are expected"
            f" with a checkpoint every {say_seconds(spot['checkpoint_interval_s'])}{advice}."
        )
    return lines + [_option_sentence(option) for option in forecast.get("purchases") or ()]


def _option_sentence(option: Document) -> str:
    kind = say_name(option["purchase"]).capitalize()
    duration, cost = option["duration_seconds"], option["cost"]
    if duration is None:
        return f"{kind}: {option['refused']}"
    upper = say_seconds(duration["upper"])
    money = "the price is unknown"
    if cost is not None:
        money = f"{cost['median']} {cost['currency']} (at most {cost['upper']})"
    return f"{kind}: about {say_seconds(duration['median'])} (at most {upper}), {money}."


def _energy_sentences(energy: Document) -> list[str]:
    """Return sentences about the energy, unless only an upper estimate is known."""
    if energy.get("kilowatt_hours") is None:
        return []
    if energy.get("kg_co2e") is None and energy.get("basis") == "data_sheet":
        return []
    basis = say_name(energy["basis"])
    carbon = energy.get("kg_co2e")
    nearly = "at most" if energy["basis"] == "data_sheet" else "about"
    emissions = "" if carbon is None else f", that is {nearly} {say_amount(carbon)} kg CO2e"
    amount = f"{nearly} {say_amount(energy['kilowatt_hours'])} kWh"
    return [f"It uses {amount} (power: {basis}){emissions}."]


def forecast_sentences(forecast: Document) -> str:
    """Return one forecast as a few lines of prose."""
    duration = forecast["duration_seconds"]
    members = say_members(forecast)
    details = ", ".join(
        f"{name} {members[name]}" for name in members if name in WORK or name.startswith(PARAMETER)
    )
    lines = [
        f"{forecast['workload']} on {_hardware(forecast)}{f' with {details}' if details else ''}:",
        (
            f"about {say_seconds(duration['median'])}, with {say_share(duration['confidence'])}"
            f" confidence between {say_seconds(duration['lower'])}"
            f" and {say_seconds(duration['upper'])}."
        ),
        _cost_sentence(forecast.get("cost")),
        (
            f"Basis: {forecast['basis']} ({_basis_meaning(forecast)};"
            f" {say_count(forecast['support']['runs_used'], 'run')}, regressor version"
            f" {forecast['regressor_version']})."
        ),
    ]
    lines += [*_spot_sentences(forecast), *_energy_sentences(forecast.get("energy") or {})]
    lines += [
        f"It {what} with probability {probability}."
        for what, probability in say_probabilities(forecast).items()
    ]
    if forecast.get("to_target") is not None:
        lines.append(_target_sentence(forecast["to_target"]))
    limit = say_enough_seconds(forecast["time_limit_seconds"])
    lines.append(f"A time limit of {limit} would be safe.")
    lines += _explanation(forecast)
    return "\n".join([*lines, *warning_sentences(forecast)]) + "\n"


def warning_sentences(answer: Document) -> list[str]:
    """Return the warnings of an answer, each as a line."""
    return [
        f"Warning ({entry['code']}): {entry['message']} {entry['remedy']}"
        for entry in answer.get("warnings") or ()
    ]


def _target_sentence(target: Document) -> str:
    duration, epochs, cost = target["duration_seconds"], target["epochs"], target["cost"]
    money = "" if cost is None else f" and cost {cost['median']} {cost['currency']}"
    return (
        f"To the target it takes about {say_rounded(epochs['median'])} epochs:"
        f" {say_seconds(duration['median'])} ({say_seconds(duration['lower'])} to"
        f" {say_seconds(duration['upper'])}){money}."
    )


def _explanation(forecast: Document) -> list[str]:
    """Return the parts of the duration and the influential runs, as far as requested."""
    lines = []
    if parts := say_parts(forecast):
        lines.append(f"Where the time goes: {parts}.")
    lessons = [
        f"{lesson['run_ids'][0]} ({say_change(lesson['influence'] / 100, decimals=2)})"
        for lesson in (forecast.get("taught_by") or ())[:_SHOWN_LESSONS]
    ]
    if lessons:
        lines.append(
            f"Most influential runs: {', '.join(lessons)}: the change here for 1% more time there."
        )
    return lines


def _outcome(forecast: Document, objective: str) -> dict[str, str]:
    """Return a forecast's cells by the names of the table's columns."""
    duration, cost = forecast["duration_seconds"], forecast.get("cost")
    cells = {
        "duration": say_seconds(duration["median"]),
        f"{say_share(duration['confidence'])} interval": (
            f"{say_seconds(duration['lower'])} .. {say_seconds(duration['upper'])}"
        ),
        "cost": "-" if cost is None else f"{cost['median']} {cost['currency']}",
        "basis": forecast["basis"],
    }
    return cells | say_objective(objective, forecast) | say_probabilities(forecast)


def forecast_table(forecasts: Sequence[Document], objective: str = "") -> str:
    """Return many forecasts as an aligned table, with what all have in common above it."""
    if not forecasts:
        return "Nothing was asked.\n"
    questions = [say_members(forecast) for forecast in forecasts]
    names = list(dict.fromkeys(name for row in questions for name in row))
    shared = [name for name in names if len({row.get(name) for row in questions}) == 1]
    varied = [name for name in names if name not in shared] or ["workers"]
    common = ", ".join(f"{name} {questions[0][name]}" for name in shared if name not in varied)
    outcomes = [_outcome(forecast, objective) for forecast in forecasts]
    columns = list(dict.fromkeys(name for outcome in outcomes for name in outcome))
    rows = [
        [row.get(name, "-") for name in varied] + [outcome.get(name, "-") for name in columns]
        for row, outcome in zip(questions, outcomes, strict=True)
    ]
    title = f"{forecasts[0]['workload']}{f': {common}' if common else ''}"
    header = [*varied, *columns]
    table = align(header, rows, left=sum(name in _CATEGORIES for name in varied) or 1)
    return f"{title}\n\n{table}\n{notes_on(forecasts)}"


def notes_on(forecasts: Sequence[Document]) -> str:
    """Return the warnings of a table's forecasts, to stand below it."""
    notes = gather_warnings(
        forecasts, lambda entry, _: f"Warning ({entry['code']}): {entry['message']}"
    )
    return "".join(f"{line}\n" for line in ["", *notes]) if notes else ""


def _extra_money(gain: Document) -> str:
    extra, currency = gain["extra_cost"], gain["currency"]
    if extra is None:
        return ""
    amount = str(extra)
    return f" for {amount.removeprefix('-')} {currency} {'less' if amount[:1] == '-' else 'more'}"


def _remarks(answer: Document) -> list[str]:
    """Return the effect of one more worker, and why candidates do not qualify."""
    lines = []
    gain = answer.get("next_worker")
    if gain is not None:
        saved = gain["seconds_saved"]
        change = "saves" if saved >= 0 else "loses"
        lines.append(
            f"One more worker ({gain['workers']}) {change} {say_seconds(abs(saved))}"
            f"{_extra_money(gain)}."
        )
    reasons = answer.get("rejected_by_reason") or {}
    if reasons:
        lines.append(say_rejected(reasons))
    return ["", *lines] if lines else []


def recommendation_text(answer: Document) -> str:
    """Return a recommendation as a sentence and the best candidates as a table."""
    candidates = say_count(answer["considered"], "configuration")
    rejected = answer.get("rejected_count", 0)
    if answer.get("recommended") is None:
        lines = [f"None of {candidates} meets the constraints."]
        nearest = answer.get("nearest")
        if nearest is not None:
            changes = [f"- {change['message']}" for change in nearest["changes"]]
            lines += ["The nearest one, and what would have to change:", *changes, ""]
            lines += [forecast_sentences(nearest["forecast"]).rstrip()]
        return "\n".join([*lines, *_remarks(answer)]) + "\n"
    best = answer["recommended"]["forecast"]
    lines = [
        f"Best of {candidates} by {say_name(answer['objective'])} ({rejected:,} not qualified):",
        "",
        forecast_sentences(best).rstrip(),
    ]
    ranked = [entry["forecast"] for entry in answer.get("ranked") or ()]
    if len(ranked) > 1:
        lines += ["", forecast_table(ranked, answer["objective"]).rstrip()]
    lines += _remarks(answer)
    return "\n".join(lines) + "\n"
