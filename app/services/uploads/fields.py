"""The fields of a run in flat form: names, kinds and limits, defined once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.configurations import CATEGORY_FEATURES, NUMERIC_FEATURES
from app.domain.errors import Fault
from app.domain.flat_fields import COLUMN_PARAMETERS, PARAMETER
from app.domain.runs import TARGETS
from app.domain.spelling import nearest_field
from app.domain.wording import say_unprintable

MAX_TEXT: Final = 100
MAX_EXTERNAL_ID: Final = 200
MAX_IDENTIFIER: Final = 40
"""The service's own identifiers are shorter."""
MAX_VALUE_TEXT: Final = 500
MAX_NAMES: Final = 300
"""How many different fields, parameters, phases and labels one upload may name."""
MAX_SHOWN: Final = 200
"""How many characters of a bad value are shown."""
TEN_YEARS_S: Final = 10 * 366 * 86_400.0

TEXT_FIELDS: Final = (
    "workload",
    "external_id",
    "status",
    "gpu_type",
    "instance_type",
    "provider",
    "region",
    "purchase",
    "cost_currency",
    "forecast_id",
    "excluded_reason",
)
INSTANT_FIELDS: Final = ("started_at", "ended_at")
MONEY_FIELDS: Final = ("cost_usd", "cost_amount")
RESOURCES: Final = (
    "peak_gpu_memory_bytes",
    "peak_memory_bytes",
    "gpu_utilization",
    "cpu_utilization",
    "energy_joules",
    *TARGETS,
)
EXCLUSION: Final = "excluded_reason"
"""Why a run is kept out of fits; not part of what it measured."""
PHASE: Final = "phase."
LABEL: Final = "label."
RESOURCE: Final = "resource."
FAMILIES: Final = {
    "parameters": PARAMETER,
    "phases": PHASE,
    "resources": RESOURCE,
    "labels": LABEL,
}
"""Prefix of the flat names of each kind of a run's members."""
_ALIASES: Final = {
    "run_id": "external_id",
    **COLUMN_PARAMETERS,
    **{name: RESOURCE + name for name in TARGETS},
}
_PHASE_NAME: Final = re.compile(r"[A-Za-z0-9][\w.\-]{0,90}_seconds")
_CORE: Final = frozenset((*NUMERIC_FEATURES, *CATEGORY_FEATURES))


@dataclass(frozen=True, slots=True)
class NumberRule:
    """The numbers that a field accepts: from `lower` (exclusive when open) to `upper`."""

    wanted: str
    remedy: str
    lower: float = 0.0
    is_open: bool = True
    upper: float = 1e18
    is_whole: bool = False


_SECONDS_REMEDY: Final = "Send seconds as a plain number such as 5123.7 (not ms, not hh:mm:ss)."
_OTHER_UNITS: Final = {
    "seconds": "ns nanoseconds us microseconds ms millis milliseconds min mins minutes h hrs hours"
    " d days",
    "joules": "kj mj wh kwh mwh",
    "bytes": "kb mb gb kib mib gib",
}
"""Units in which others measure what a field states in the unit at the end of its name."""
_COST_IN: Final = re.compile(
    r"cost_(?P<currency>aud|cad|chf|cny|eur|gbp|inr|jpy|krw|sek)", re.IGNORECASE
)
_COUNT_RULE: Final = NumberRule(
    "a whole number from 1 to 1,000,000",
    "Send a whole number of 1 or more, or leave the cell empty.",
    lower=1,
    is_open=False,
    upper=1e6,
    is_whole=True,
)
_SIZE_RULE: Final = NumberRule(
    "a positive number from 1e-18 to 1e18",
    "Send a positive number such as 1281167 (no unit, no separators of thousands), or leave it out"
    " where it does not apply.",
    lower=1e-18,
    is_open=False,
)
NUMBER_RULES: Final[Mapping[str, NumberRule]] = {
    "duration_seconds": NumberRule(
        "a positive number of seconds, from a nanosecond to ten years",
        _SECONDS_REMEDY,
        lower=1e-9,
        is_open=False,
        upper=TEN_YEARS_S,
    ),
    "progress": NumberRule(
        "a share from 0 to 1", "Send 0.4 for 40 percent.", is_open=False, upper=1.0
    ),
    "nodes": _COUNT_RULE,
    "workers": _COUNT_RULE,
    "dataset_size": _SIZE_RULE,
    "batch_size": _SIZE_RULE,
    "epochs": _SIZE_RULE,
}
PHASE_RULE: Final = NumberRule(
    "a number of seconds from 0 to ten years", _SECONDS_REMEDY, is_open=False, upper=TEN_YEARS_S
)
SHARE_RULE: Final = NumberRule(
    "a share from 0 to 1", "Send 0.93 for 93 percent.", is_open=False, upper=1.0
)
RESOURCE_RULE: Final = NumberRule(
    "a number of 0 or more", "Send it in the unit of its name.", is_open=False
)

PLAIN_FIELDS: Final = (*TEXT_FIELDS, *NUMBER_RULES, *INSTANT_FIELDS, *MONEY_FIELDS)
WRITABLE_FIELDS: Final = (*PLAIN_FIELDS, *_ALIASES, *(RESOURCE + name for name in RESOURCES))


def printable(text: str) -> str:
    """Return the beginning of a text, in a form that any answer can carry."""
    return text[:MAX_SHOWN].encode("utf-8", "backslashreplace").decode()


def number_rule(field: str) -> NumberRule | None:
    """Return the rule of a numeric field, None for other fields."""
    if field.startswith(PHASE):
        return PHASE_RULE
    if field.startswith(RESOURCE):
        if field.removeprefix(RESOURCE) in TARGETS:
            return _SIZE_RULE
        return SHARE_RULE if field.endswith("utilization") else RESOURCE_RULE
    return NUMBER_RULES.get(field)


def canonical_field(name: str) -> str | None:
    """Return the field that a column or key stands for, None if there is none.

    Examples
    --------
    >>> canonical_field("run_id"), canonical_field("framework"), canonical_field("batchsize")
    ('external_id', 'param.framework', None)
    """
    if name in _ALIASES:
        return _ALIASES[name]
    family, dot, member = name.partition(".")
    if dot:
        return name if _is_member(family + dot, member) else None
    return name if name in PLAIN_FIELDS else None


def _is_member(family: str, member: str) -> bool:
    if family == PHASE:
        return _PHASE_NAME.fullmatch(member) is not None
    if family == RESOURCE:
        return member in RESOURCES
    if family == PARAMETER and member in _CORE:
        return False
    is_named = member == member.strip() and member.isprintable() and 0 < len(member) <= MAX_TEXT
    return family in {PARAMETER, LABEL} and is_named


def unknown_field_fault(
    name: str, *, row: int | None = None, known: Sequence[str] = WRITABLE_FIELDS
) -> Fault:
    """Return the fault of an unknown field name, with the nearest of the `known` ones."""
    if not name:
        remedy = "Name it, or leave it out; pandas writes no index with to_csv(index=False)."
        return Fault("A field has no name.", remedy, field=name, row=row)
    family, dot, member = name.partition(".")
    if dot and family + dot == PARAMETER and member in _CORE:
        remedy = f"Use the field {member!r} itself."
    elif dot and family + dot == PHASE:
        remedy = "Name phases phase.NAME_seconds, such as phase.setup_seconds."
    elif dot and family + dot in {PARAMETER, LABEL}:
        remedy = _own_name_remedy(family + dot, member)
    else:
        remedy = _meant_remedy(name, known)
    shown = printable(name)
    return Fault(f"There is no field {shown!r}.", remedy, field=shown, row=row)


def _own_name_remedy(family: str, member: str) -> str:
    """Return what to change in the name of a parameter or label that is no name."""
    if not member:
        return f"Write a name behind it: {family}NAME."
    if not member.isprintable():
        return f"Remove {say_unprintable(member)} from its name: it cannot be printed."
    if len(member) > MAX_TEXT:
        return f"Shorten its name: it may have {MAX_TEXT} characters."
    return "Remove the white space around its name."


def _meant_remedy(name: str, known: Sequence[str]) -> str:
    nearest = meant_field(name, known)
    if nearest and nearest == _converted(name, known):
        unit = nearest.rpartition("_")[2]
        hint = f"Convert to {unit} and send {nearest!r}. "
    else:
        hint = f"Did you mean {nearest!r}? " if nearest else ""
    cost = _COST_IN.fullmatch(name)
    if cost and not nearest:
        currency = cost["currency"].upper()
        return f"Send the amount as cost_amount, and {currency} as cost_currency."
    is_plain = not nearest and "." not in name and len(name) < MAX_IDENTIFIER and _is_own(name)
    own = name if is_plain else "NAME"
    return f"{hint}A parameter of your own is {PARAMETER}{own}, a label {LABEL}{own}."


def meant_field(name: str, known: Sequence[str] = WRITABLE_FIELDS) -> str | None:
    """Return the field that an unknown name probably means, None if none resembles it."""
    return _converted(name, known) or nearest_field(name, known)


def _converted(name: str, known: Sequence[str]) -> str | None:
    """Return the field that states in its own unit what a name states in another."""
    stem, _, unit = name.rpartition("_")
    for own_unit, others in _OTHER_UNITS.items():
        if unit.casefold() in others.split():
            nearest = (nearest_field(candidate, known) for candidate in (name, stem))
            return next(
                (
                    candidate
                    for candidate in nearest
                    if candidate and candidate.endswith(f"_{own_unit}")
                ),
                None,
            )
    return None


def _is_own(name: str) -> bool:
    return name != PARAMETER[:-1] and _is_member(PARAMETER, name)
