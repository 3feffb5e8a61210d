"""The wording of what would have to change when no candidate qualifies."""

from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, Context
from typing import Any, Final

from app.api.schemas.quantities import plain_number
from app.domain.recommendations import NeededChange
from app.domain.wording import (
    say_amount,
    say_count,
    say_enough_seconds,
    say_number,
    say_probability,
    say_seconds,
    say_share,
)

_SIX_DIGITS_UP: Final = Context(prec=6, rounding=ROUND_CEILING)


def change_document(change: NeededChange) -> dict[str, Any]:
    """Return a change with a sentence about it; bounds are rounded up so that they suffice."""
    needed = change.needed
    if change.constraint in {"deadline_s", "budget"} and isinstance(needed, float):
        needed = float(_SIX_DIGITS_UP.create_decimal_from_float(needed))
    asked, needed = _plain(change.asked), _plain(needed)
    message = _MESSAGES[change.constraint](asked, needed)
    if change.currency is not None:
        message = f"In {change.currency} {message[0].lower()}{message[1:]}"
    return {
        "constraint": change.constraint,
        "asked": asked,
        "needed": needed,
        "message": message,
    }


def _plain(value: float | bool | str | None) -> float | bool | str | None:  # noqa: FBT001
    return plain_number(value) if isinstance(value, float) else value


def _memory(asked: float, needed: float | None) -> str:
    fits = (
        "It does not fit into memory, at whatever confidence"
        if needed is None
        else f"It fits into memory with probability {say_probability(needed)}, {say_share(asked)}"
        " is asked"
    )
    return f"{fits}: take a GPU type with more memory or spread the batch over more workers."


def _price(_asked: object, needed: float | None) -> str:
    remedy = (
        "No price is known for it: give pricing.price_per_hour or upload one (POST /v1/prices)."
    )
    if needed is None:
        return remedy
    return f"{remedy} Up to {say_amount(needed)} an hour would keep the budget."


def _currency(asked: object, needed: object) -> str:
    return (
        f"Its price is in {needed} and no exchange rate to {asked} is known: ask in {needed}, or"
        " upload a rate (POST /v1/exchange-rates)."
    )


def _purchase(_asked: object, _needed: object) -> str:
    return "No checkpoint interval would let it end on spot capacity; on demand it would."


_Wording = Callable[[Any, Any], str]
_MESSAGES: Mapping[str, _Wording] = {
    "deadline_s": lambda asked, needed: (
        f"The deadline would have to be {say_enough_seconds(needed)}"
        f" instead of {say_seconds(asked)}."
    ),
    "budget": lambda asked, needed: (
        f"The budget would have to be {say_amount(needed)} instead of {say_amount(asked)}."
    ),
    "require_within_range": lambda _asked, _needed: (
        "It lies beyond the measured range: measure it, or ask without require_within_range."
    ),
    "work.batch_size": lambda asked, needed: (
        f"It fits into memory with a batch_size of {say_number(needed)}"
        f" instead of {say_number(asked)}."
    ),
    "confidence": _memory,
    "pricing.price_per_hour": _price,
    "pricing.currency": _currency,
    "pricing.spot.checkpoint_interval_s": lambda asked, needed: (
        f"It would end on spot capacity with a checkpoint every {say_seconds(needed)}"
        f" instead of every {say_seconds(asked)}."
    ),
    "pricing.purchase": _purchase,
    "search.purchase": _purchase,
    "search.nodes": lambda asked, needed: (
        f"Its workers would have to run on {say_count(needed, 'node')} instead of {asked}."
    ),
    "energy.watts_per_worker": lambda _asked, _needed: (
        "Its power is not known: give energy.watts_per_worker, or upload runs with"
        " resources.energy_joules."
    ),
    "energy.kg_co2e_per_kwh": lambda _asked, _needed: (
        "No grid factor is known for its place: give energy.kg_co2e_per_kwh, or upload one"
        " (POST /v1/grid-factors)."
    ),
}
