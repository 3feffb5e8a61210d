"""The flat `name=value` fields of commands, with suggestions for misspelt ones."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.cli.failures import UsageError
from app.cli.numbers import number_or_text
from app.domain.comma_lists import split_list
from app.domain.flat_fields import COLUMN_PARAMETERS, PARAMETER, WORK
from app.domain.spelling import nearest_field

SEARCH: Final = {
    "gpu_type": "gpu_types",
    "instance_type": "instance_types",
    "provider": "providers",
    "region": "regions",
    "workers": "workers",
    "nodes": "nodes",
    "purchase": "purchase",
}
_TEXTS: Final = frozenset({"gpu_type", "instance_type", "provider", "region", "purchase"})
_PRICES: Final = ("price_per_hour", "currency", "as_of")
_SPOT: Final = ("interruptions_per_hour", "checkpoint_interval_s", "checkpoint_s", "restart_s")
_ENERGY: Final = ("watts_per_worker", "kg_co2e_per_kwh")
_OPTIONS: Final = {
    "deadline": "--deadline",
    "deadline_s": "--deadline",
    "budget": "--budget",
    "objective": "--objective",
    "limit": "--limit",
}
FORECAST_FIELDS: Final = (
    *SEARCH, *WORK, *COLUMN_PARAMETERS, "param.NAME", "confidence", "deadline_s", "budget",
    "regressor_version", "time_limit_quantile", "explain", *_PRICES, *_SPOT,
)  # fmt: skip
"""The fields of `trainfare forecast`; the service checks them."""

RECOMMEND_FIELDS: Final = (
    *SEARCH, *WORK, *COLUMN_PARAMETERS, "param.NAME", "confidence",
    *_PRICES, *_SPOT, *_ENERGY,
)  # fmt: skip
"""The fields of `trainfare recommend`; its limits are options."""


def split_fields(fields: Iterable[str], *, is_grid: bool = True) -> dict[str, str]:
    """Return `name=value` arguments as a mapping; a column that is a parameter gets its prefix.

    Parameters
    ----------
    fields
        The arguments.
    is_grid
        Whether a field may have several values, with commas between them.

    Raises
    ------
    UsageError
        If an argument has no `=` or no value, or repeats a field.
    """
    pairs: dict[str, str] = {}
    for field in fields:
        given, separator, value = field.partition("=")
        name = COLUMN_PARAMETERS.get(given, given)
        if not separator or not name:
            raise UsageError(f"{field!r} is not name=value.", "Write workers=8 or gpu_type=V100.")
        if not value:
            raise UsageError(f"{name} has no value.", "Leave it out. Is a variable empty?")
        if name in pairs:
            message = f"{name} is given twice: {pairs[name]} and {value}."
            grid = f"A comma makes a grid: {name}={pairs[name]},{value}."
            raise UsageError(message, grid if is_grid else "State one of them.")
        pairs[name] = value
    return pairs


def recommendation_request(workload: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the body of a recommendation request from flat fields.

    Raises
    ------
    UsageError
        If a field belongs to no part of the request.
    """
    body: dict[str, Any] = {"workload": workload}
    for name, text in fields.items():
        *path, last = _path_of(name)
        part = body
        for step in path:
            part = part.setdefault(step, {})
        part[last] = _value(name, text)
    return body


def _path_of(name: str) -> tuple[str, ...]:
    """Return the path of a field in a recommendation request."""
    if name.startswith(PARAMETER):
        return ("parameters", name.removeprefix(PARAMETER))
    if name in SEARCH:
        return ("search", SEARCH[name])
    if name == "confidence":
        return (name,)
    parts = {("work",): WORK, ("pricing",): _PRICES, ("pricing", "spot"): _SPOT,
             ("energy",): _ENERGY}  # fmt: skip
    for path, names in parts.items():
        if name in names:
            return (*path, name)
    raise unknown_field(name, RECOMMEND_FIELDS, _OPTIONS)


def _value(name: str, text: str) -> object:
    if name in SEARCH:
        return values_of(name, text)
    if name.startswith(PARAMETER):
        # Sent as text: the service knows which are numbers; as a category, 1.10 is not 1.1.
        return value_of(name, text, as_text=True)
    return text if name in _PRICES else value_of(name, text)


def values_of(name: str, text: str, *, as_text: bool = False) -> list[float | int | str]:
    """Return the values of a comma list; names of hardware and places are always text.

    Parameters are numbers only if all values of the list are, like the columns of an upload.

    Raises
    ------
    UsageError
        If there is no value, or a number is infinite.
    """
    values = split_list(text)
    if not values:
        raise UsageError(f"{name} has no value.", "Leave it out. Is a variable empty?")
    if as_text or name in _TEXTS:
        return list(values)
    typed = [number_or_text(name, value) for value in values]
    is_category = name.startswith(PARAMETER) and any(isinstance(value, str) for value in typed)
    return list(values) if is_category else typed


def value_of(name: str, text: str, *, as_text: bool = False) -> float | int | str:
    """Return the one value of a field.

    Raises
    ------
    UsageError
        If there is no value or several, or a number is infinite.
    """
    values = values_of(name, text, as_text=as_text)
    if len(values) == 1:
        return values[0]
    raise UsageError(
        f"{name} takes one value here, not {text}.",
        f'Give one. A value with commas stands in double quotes: {name}="a,b".',
    )


def unknown_field(name: str, known: Iterable[str], options: Mapping[str, str]) -> UsageError:
    """Return the error for an unknown field, with the field or option that was probably meant."""
    fields = tuple(known)
    nearest = nearest_field(name, [*fields, *options])
    hint = f"Did you mean {options.get(nearest, nearest)}? " if nearest else ""
    return UsageError(f"Unknown field {name!r}.", f"{hint}Known: {', '.join(fields)}.")
