"""The exchange rate between two currencies at an instant."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from app.domain.ages import age
from app.domain.exchange_rates import Conversion, ExchangeRate

STALE_RATE_AFTER: Final = timedelta(days=30)
"""An older rate is applied with a warning."""

RATE_DIGITS: Final = 12
"""The most significant digits of a rate that is stored, inverted or combined."""

_ROUNDED: Final = Context(prec=RATE_DIGITS, rounding=ROUND_HALF_EVEN)
_EXACT: Final = Context(prec=80)
_Pair = tuple[str, str]


class RateBook:
    """The exchange rates of a project.

    A stored rate is applied unchanged. If only the opposite rate is stored, it is inverted; if
    neither is, two rates with a common currency are combined. An inverted or combined rate is
    rounded once, half to even, to `RATE_DIGITS` significant digits.
    """

    def __init__(self, rates: Iterable[ExchangeRate]) -> None:
        self._by_pair: defaultdict[_Pair, list[ExchangeRate]] = defaultdict(list)
        for rate in rates:
            self._by_pair[rate.from_currency, rate.to_currency].append(rate)
        for listed in self._by_pair.values():
            listed.sort(key=lambda rate: rate.valid_from)
        self._currencies = {name for pair in self._by_pair for name in pair}

    def conversion(self, source: str, target: str, as_of: datetime) -> Conversion | None:
        """Return the applicable rate, None if there is none; the most recent one wins.

        Of combined rates that are equally recent and of the same sources, that by way of the
        alphabetically first currency wins.

        Examples
        --------
        >>> from datetime import UTC
        >>> day = datetime(2026, 11, 2, tzinfo=UTC)
        >>> book = RateBook([ExchangeRate("EUR", "USD", Decimal("1.25"), day, "a bank")])
        >>> str(book.conversion("USD", "EUR", day).rate)
        '0.8'
        """
        direct = self._direct(source, target, as_of)
        if direct is not None:
            return _rounded(direct)
        chained = [
            _chained(first, second)
            for via in sorted(self._currencies - {source, target})
            if (first := self._direct(source, via, as_of)) is not None
            and (second := self._direct(via, target, as_of)) is not None
        ]
        return max(
            chained, key=lambda candidate: (candidate.valid_from, candidate.source), default=None
        )

    def _direct(self, source: str, target: str, as_of: datetime) -> Conversion | None:
        """Return a stored rate or the inverse of one, not yet rounded."""
        forward, backward = (
            self._latest(*pair, as_of) for pair in ((source, target), (target, source))
        )
        if forward is not None and (backward is None or backward.valid_from <= forward.valid_from):
            return Conversion(source, target, forward.rate, forward.valid_from, forward.source)
        if backward is None:
            return None
        rate = _EXACT.divide(Decimal(1), backward.rate)
        return Conversion(
            source, target, rate, backward.valid_from, f"inverse of {backward.source}"
        )

    def _latest(self, source: str, target: str, as_of: datetime) -> ExchangeRate | None:
        valid = [
            rate for rate in self._by_pair.get((source, target), ()) if rate.valid_from <= as_of
        ]
        return valid[-1] if valid else None


def _rounded(conversion: Conversion) -> Conversion:
    # A stored rate has no more digits, so it stays unchanged.
    return replace(conversion, rate=_ROUNDED.plus(conversion.rate).normalize())


def _chained(first: Conversion, second: Conversion) -> Conversion:
    return _rounded(
        Conversion(
            first.from_currency,
            second.to_currency,
            _EXACT.multiply(first.rate, second.rate),
            min(first.valid_from, second.valid_from),
            f"{first.source}; {second.source}",
        )
    )


def is_stale_rate(conversion: Conversion, as_of: datetime) -> bool:
    """Return whether a rate is so old that it is applied with a warning."""
    return age(conversion.valid_from, as_of) > STALE_RATE_AFTER
