"""Wording of seconds and amounts for people."""

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from typing import Any, Final

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY
_SECOND_S: Final = 0.9995
_SHORT_S: Final = 9.95
"""From here on, three digits of milliseconds or tenths of a second would round up."""
_RESOLUTIONS: Final = ((_SHORT_S, 0.1), (_HOUR, 1.0), (_DAY, _MINUTE), (_YEAR, _HOUR))
"""Bounds of durations with the resolution to which those below are told, up to a year."""
_OTHER_OFFERS: Final = {"spot", "reserved"}
_MIN_SHARE, _MIN_PROBABILITY = 0.01, 1e-4
_MANY: Final = 1e6
_WHOLE_FROM: Final = 999_999.5
"""From here on, six digits would be written with an exponent."""
PROBABILITIES: Final = {"deadline": "keeps the deadline", "budget": "keeps the budget"}
"""The limits that a forecast may keep, with their wording."""
_SHOWN_OF_A_KIND: Final = 3
_THREE_DIGITS_UP: Final = Context(prec=3, rounding=ROUND_CEILING)
_FIGURES: Final = {"energy": ("kilowatt_hours", "kWh"), "carbon": ("kg_co2e", "kg CO2e")}
"""Objectives besides duration and cost: the member of a forecast's energy, and its unit."""


def say_seconds(seconds: float) -> str:
    """Return a duration with its two leading units.

    Examples
    --------
    >>> [say_seconds(value) for value in (4.2e-8, 0.00042, 3.27, 59.7, 330, 33120, 200_000)]
    ['0.000042 ms', '0.42 ms', '3.3 s', '1 min', '5 min 30 s', '9 h 12 min', '2 d 8 h']
    >>> [say_seconds(value) for value in (0.9994, 0.9996, 9.94, 9.96, 31.6e6, 5e9)]
    ['999 ms', '1.0 s', '9.9 s', '10 s', '1 year', '159 years']
    """
    if seconds < _SECOND_S:
        return f"{say_rounded(seconds * 1e3)} ms"
    if seconds < _SHORT_S:
        return f"{seconds:.1f} s"
    if seconds >= _YEAR:
        years = f"{seconds / _YEAR:.3g}"
        return "1 year" if years == "1" else f"{years} years"
    units = (("d", _DAY), ("h", _HOUR), ("min", _MINUTE), ("s", 1))
    whole = round(seconds)
    first = next(index for index, (_, size) in enumerate(units) if whole >= size)
    # Round to the second unit shown, so that 59 min 59.7 s becomes 1 h.
    resolution_s = units[min(first + 1, len(units) - 1)][1]
    whole = round(seconds / resolution_s) * resolution_s
    first = next(index for index, (_, size) in enumerate(units) if whole >= size)
    parts = []
    for name, size in units[first : first + 2]:
        count, whole = divmod(whole, size)
        if count:
            parts.append(f"{count} {name}")
    return " ".join(parts)


def say_enough_seconds(seconds: float) -> str:
    """Return a duration like `say_seconds`, but rounded up, so that it suffices.

    Examples
    --------
    >>> [say_enough_seconds(value) for value in (34.2, 34.0, 43281.2, 3599.5, 3.21, 0.00042)]
    ['35 s', '34 s', '12 h 2 min', '1 h', '3.3 s', '0.42 ms']
    """
    if seconds < _SECOND_S or seconds >= _YEAR:
        unit = _YEAR if seconds >= _YEAR else 1e-3
        step = unit * 10.0 ** (math.floor(math.log10(seconds / unit)) - 2)
    else:
        step = next(resolution_s for bound_s, resolution_s in _RESOLUTIONS if seconds < bound_s)
    return say_seconds(math.ceil(round(seconds / step, 6)) * step)


def say_number(number: float) -> str:
    """Return a number without unnecessary digits.

    Examples
    --------
    >>> [say_number(value) for value in (1281167.0, 0.5, 4, 1.25e-5)]
    ['1,281,167', '0.5', '4', '1.25e-05']
    >>> [say_number(value) for value in (1000.5, 999_999.4, 1234567.8)]
    ['1,000.5', '999,999', '1,234,568']
    """
    if float(number).is_integer() or abs(number) >= _WHOLE_FROM:
        return f"{round(number):,}"
    return f"{number:,.6g}"


def say_rounded(number: float) -> str:
    """Return a number with three digits and without an exponent.

    Examples
    --------
    >>> [say_rounded(value) for value in (0.00001363, 5114.3, 199_320.0)]
    ['0.0000136', '5,110', '199,000']
    """
    return f"{Decimal(f'{number:.3g}'):,f}"


def say_enough(number: float) -> str:
    """Return a number like `say_rounded`, but rounded up, so that it suffices.

    Examples
    --------
    >>> [say_enough(value) for value in (0.17612, 0.176, 12.31)]
    ['0.177', '0.176', '12.4']
    """
    return f"{_THREE_DIGITS_UP.create_decimal(repr(float(number))):,f}"


def say_amount(amount: float) -> str:
    """Return an amount of money or energy with all its digits, a tiny one without an exponent.

    Examples
    --------
    >>> [say_amount(value) for value in (1250.0, 1234567.8, 0.0134504, 0.000001)]
    ['1,250', '1,234,567.8', '0.0134504', '0.000001']
    """
    return f"{int(amount):,}" if float(amount).is_integer() else f"{Decimal(repr(amount)):,f}"


def say_factor(factor: float) -> str:
    """Return how many times as much something is, without an exponent.

    Examples
    --------
    >>> [say_factor(value) for value in (12.345, 3786.2, 5.84e10, math.inf)]
    ['12.3', '3,790', 'over a million', 'over a million']
    """
    return "over a million" if factor > _MANY else say_rounded(factor)


def say_count(count: int, noun: str) -> str:
    """Return a count with its noun.

    Examples
    --------
    >>> say_count(1, "usable run"), say_count(12, "usable run")
    ('1 usable run', '12 usable runs')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def say_workers(workers: int, gpu_type: str | None) -> str:
    """Return a number of workers with the GPU that each of them has, if that is known.

    Examples
    --------
    >>> say_workers(1, None), say_workers(4096, "H100")
    ('1 worker', '4,096 x H100')
    """
    return say_count(workers, "worker") if gpu_type is None else f"{workers:,} x {gpu_type}"


def say_name(name: str) -> str:
    """Return one of the words of the API as it is written in a sentence.

    Examples
    --------
    >>> say_name("out_of_memory")
    'out of memory'
    """
    return name.replace("_", " ")


def say_unprintable(text: str) -> str:
    r"""Return the first unprintable character of a text in visible form.

    Examples
    --------
    >>> say_unprintable("A100\N{NO-BREAK SPACE}80GB"), say_unprintable("two\nlines")
    ('U+00A0 (no-break space)', 'U+000A')
    """
    first = next(character for character in text if not character.isprintable())
    name = unicodedata.name(first, "").lower()
    return f"U+{ord(first):04X}" + (f" ({name})" if name else "")


def say_objective(objective: str, forecast: Mapping[str, Any]) -> dict[str, str]:
    """Return the figure by which candidates are ranked, if it is neither a duration nor a cost.

    Examples
    --------
    >>> say_objective("energy", {"energy": {"kilowatt_hours": 12.5}})
    {'energy': '12.5 kWh'}
    >>> say_objective("cost", {"energy": None})
    {}
    """
    if objective not in _FIGURES:
        return {}
    member, unit = _FIGURES[objective]
    return {objective: f"{say_amount(forecast['energy'][member])} {unit}"}


def say_share(share: float) -> str:
    """Return a fraction as a percentage of four digits.

    Examples
    --------
    >>> say_share(0.9), say_share(0.898765)
    ('90%', '89.88%')
    """
    return f"{100 * share:.4g}%"


def say_change(fraction: float, *, decimals: int = 1) -> str:
    """Return a relative change as a signed percentage; one that rounds to nothing has no minus.

    Examples
    --------
    >>> say_change(0.123), say_change(-0.0004), say_change(-0.5, decimals=0)
    ('+12.3%', '+0.0%', '-50%')
    """
    return f"{fraction:+z.{decimals}%}"


def say_probabilities(forecast: Mapping[str, Any]) -> dict[str, str]:
    """Return the probabilities that a forecast keeps the requested limits, by their wording.

    Examples
    --------
    >>> say_probabilities({"probability": {"deadline": 0.98, "budget": 2e-7}})
    {'keeps the deadline': '98%', 'keeps the budget': 'under 0.01%'}
    >>> say_probabilities({"probability": None})
    {}
    """
    probabilities = forecast.get("probability") or {}
    return {
        PROBABILITIES[name]: say_probability(probabilities[name])
        for name in PROBABILITIES
        if probabilities.get(name) is not None
    }


def say_probability(probability: float) -> str:
    """Return a probability as a percentage: 0% is never, 100% always.

    Examples
    --------
    >>> [say_probability(value) for value in (0.5, 2e-7, 0.99996, 0.0, 1.0)]
    ['50%', 'under 0.01%', 'over 99.99%', '0%', '100%']
    """
    if 0 < probability < _MIN_PROBABILITY:
        return "under 0.01%"
    return "over 99.99%" if 1 - _MIN_PROBABILITY < probability < 1 else say_share(probability)


def say_parts(forecast: Mapping[str, Any]) -> str:
    """Return the parts of a forecast's duration, without negligible ones.

    Examples
    --------
    >>> parts = {"computation": 0.81, "fixed": 0.187, "overhead": 0.003}
    >>> say_parts({"explanation": [{"term": term, "share": parts[term]} for term in parts]})
    'computation 81%, fixed 19%'
    """
    parts = forecast.get("explanation") or ()
    return ", ".join(
        f"{part['term']} {100 * part['share']:.0f}%"
        for part in parts
        if part["share"] >= _MIN_SHARE
    )


def say_rejected(by_reason: Mapping[str, int]) -> str:
    """Return how many candidates do not qualify for each reason.

    Examples
    --------
    >>> say_rejected({"deadline": 2, "out_of_memory": 1})
    'Not qualified: deadline 2, out of memory 1.'
    """
    counts = ", ".join(f"{say_name(reason)} {count:,}" for reason, count in by_reason.items())
    return f"Not qualified: {counts}."


def say_capacity(offer: Mapping[str, Any]) -> list[str]:
    """Return where capacity is, and how it is paid for if that distinguishes the offer.

    Examples
    --------
    >>> say_capacity({"provider": "aws", "region": "us-west-2", "purchase": "spot"})
    ['aws us-west-2', 'spot']
    >>> say_capacity({"provider": None, "purchase": "on_demand"})
    []
    """
    place = " ".join(offer[name] for name in ("provider", "region") if offer.get(name))
    purchase = offer.get("purchase")
    return [*([place] if place else []), *([purchase] if purchase in _OTHER_OFFERS else [])]


def gather_warnings(
    forecasts: Iterable[Mapping[str, Any]], say: Callable[[Mapping[str, Any], int], str]
) -> list[str]:
    """Return a line for each different warning of many forecasts, the first few of a kind.

    Parameters
    ----------
    forecasts
        Documents with `warnings`.
    say
        Returns the line of a warning, given the number of forecasts that have it.

    Examples
    --------
    >>> texts = ("workers 4", "workers 8", "workers 8", "workers 16", "workers 32")
    >>> forecasts = [{"warnings": [{"code": "beyond_range", "message": text}]} for text in texts]
    >>> for line in gather_warnings(forecasts, lambda one, count: f"{one['message']}: {count}"):
    ...     print(line)
    workers 4: 1
    workers 8: 2
    workers 16: 1
    ... and 1 more like it; the JSON has all.
    """
    by_code: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for forecast in forecasts:
        for warning in forecast.get("warnings") or ():
            equal = by_code.setdefault(warning["code"], {})
            equal.setdefault(warning["message"], []).append(warning)
    lines = []
    for kind in by_code.values():
        lines += [say(equal[0], len(equal)) for equal in [*kind.values()][:_SHOWN_OF_A_KIND]]
        if len(kind) > _SHOWN_OF_A_KIND:
            hidden = len(kind) - _SHOWN_OF_A_KIND
            lines.append(f"... and {hidden:,} more like it; the JSON has all.")
    return lines


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        2 if unicodedata.east_asian_width(character) in {"F", "W"} else 1
        for character in text
        if unicodedata.category(character) not in {"Mn", "Me", "Cf"}
    )


def align(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """Return a table in plain text; all columns but the first `left` are right-aligned.

    Examples
    --------
    >>> print(align(["gpu", "cost"], [["H100", "12.00"], ["T4", "3.10"]]))
    gpu    cost
    H100  12.00
    T4     3.10
    >>> print(align(["model", "cost"], [["大", "1.00"], ["large", "12.00"]]))
    model   cost
    大      1.00
    large  12.00
    """
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(_width(line[column]) for line in lines) for column in range(len(header))]

    def cell(text: str, column: int) -> str:
        blank = " " * (widths[column] - _width(text))
        return text + blank if column < left else blank + text

    return "\n".join(
        "  ".join(cell(text, column) for column, text in enumerate(line)).rstrip() for line in lines
    )
