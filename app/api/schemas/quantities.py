"""How numbers and amounts of money are read and written on the wire."""

from decimal import Context, Decimal
from typing import Annotated, Final

from pydantic import AfterValidator, PlainSerializer

LARGEST_EXACT = 2.0**53
_CENTS = -2
_EXACT: Final = Context(prec=80)


def _absolute(value: Decimal) -> Decimal:
    return abs(value)


# Not `abs` itself: to learn the signature of a built-in function, `inspect` parses its text, and
# what that needs takes .7 MB of each web process.
UNSIGNED: Final = AfterValidator(_absolute)
"""Reads -0 as 0: caches take them for equal, and would write one where the other was sent."""


def plain_number(value: float) -> float:
    """Return a whole number without its fraction, any other number as it is.

    Examples
    --------
    >>> plain_number(1281167.0), plain_number(0.5)
    (1281167, 0.5)
    """
    is_whole = abs(value) <= LARGEST_EXACT and value == int(value)
    return int(value) if is_whole else value


def significant(value: float | None, digits: int) -> float | None:
    """Return a figure rounded to significant digits, None for an unknown one.

    Examples
    --------
    >>> significant(0.123456, 4), significant(None, 4)
    (0.1235, None)
    """
    return None if value is None else float(f"{value:.{digits}g}")


def money_text(amount: Decimal) -> str:
    """Return an amount with two decimals, or with more if it has more.

    Examples
    --------
    >>> money_text(Decimal("34.830000")), money_text(Decimal("0.1234"))
    ('34.83', '0.1234')
    """
    exponent = amount.normalize(_EXACT).as_tuple().exponent
    digits = min(exponent, _CENTS) if isinstance(exponent, int) else _CENTS
    return format(amount.quantize(Decimal(1).scaleb(digits), context=_EXACT), "f")


def number_text(number: Decimal) -> str:
    """Return an exact number with all its digits and without trailing zeros.

    Examples
    --------
    >>> number_text(Decimal("0.9200")), number_text(Decimal("1E+2"))
    ('0.92', '100')
    """
    return format(number.normalize(_EXACT), "f")


Quantity = Annotated[float, PlainSerializer(plain_number, return_type=int | float)]
"""A number; a whole one is serialized without a fraction."""
