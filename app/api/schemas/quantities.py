"""How numbers and money are written on the wire."""

from decimal import Decimal
from typing import Annotated

from pydantic import PlainSerializer

_LARGEST_EXACT = 2.0**53
_CENTS = -2


def plain_number(value: float) -> float:
    """Return a whole number without its fraction, any other number as it is.

    Examples
    --------
    >>> plain_number(1281167.0), plain_number(0.5)
    (1281167, 0.5)
    """
    is_whole = abs(value) <= _LARGEST_EXACT and value == int(value)
    return int(value) if is_whole else value


def money_text(amount: Decimal) -> str:
    """Return an amount with its cents, and with more digits only where it has them.

    Examples
    --------
    >>> money_text(Decimal("34.830000")), money_text(Decimal("0.1234"))
    ('34.83', '0.1234')
    """
    exponent = amount.normalize().as_tuple().exponent
    digits = min(exponent, _CENTS) if isinstance(exponent, int) else _CENTS
    return format(amount.quantize(Decimal(1).scaleb(digits)), "f")


Quantity = Annotated[float, PlainSerializer(plain_number, return_type=int | float)]
"""A number that is shown without a needless fraction."""
