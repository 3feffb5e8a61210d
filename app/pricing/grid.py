"""The grid factor of a place at an instant."""

import csv
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Final

from app.domain.ages import age
from app.domain.grid_factors import GridFactor

STALE_FACTOR_AFTER: Final = timedelta(days=3 * 365)
"""An older factor is applied with a warning."""

_GRAMS: Final = Decimal(1000)


@cache
def built_in_factors() -> tuple[GridFactor, ...]:
    """Return the built-in table: yearly averages by region of the one provider that publishes them.

    Examples
    --------
    >>> {factor.provider for factor in built_in_factors()}
    {'gcp'}
    """
    text = (files("app.pricing") / "data" / "grid_factors.csv").read_text(encoding="utf-8")
    return tuple(
        GridFactor(
            Decimal(row["g_co2e_per_kwh"]) / _GRAMS,
            datetime.fromisoformat(row["valid_from"]).replace(tzinfo=UTC),
            row["source"],
            row["provider"],
            row["region"],
        )
        for row in csv.DictReader(text.splitlines())
    )


class GridBook:
    """The grid factors of a project: its own before the built-in ones.

    Of those that match a place, the most specific counts (a region is more specific than a
    provider), then the latest; of those of one date, the last stored.
    """

    def __init__(self, own: Iterable[GridFactor]) -> None:
        self._own = tuple(own)
        self._by_place: dict[tuple[str | None, str | None], tuple[GridFactor, ...]] = {}

    def factor(
        self, provider: str | None, region: str | None, as_of: datetime
    ) -> GridFactor | None:
        """Return the factor of a place, None if none is known.

        Examples
        --------
        >>> factor = GridBook([]).factor("gcp", "europe-west9", datetime(2026, 1, 1, tzinfo=UTC))
        >>> str(factor.kg_co2e_per_kwh)
        '0.0163'
        """
        key = (provider, region)
        if key not in self._by_place:
            if len(self._by_place) > len(built_in_factors()) * 10:
                self._by_place.clear()
            listed = built_in_factors() if region is not None else ()
            self._by_place[key] = (
                *_best_first(self._own, provider, region),
                *_best_first(listed, provider, region),
            )
        return next(
            (candidate for candidate in self._by_place[key] if candidate.valid_from <= as_of), None
        )


def _best_first(
    factors: Sequence[GridFactor], provider: str | None, region: str | None
) -> list[GridFactor]:
    """Return the factors that match a place, the most specific first; of one date, the last."""
    return sorted(
        (
            factor
            for factor in reversed(factors)
            if _covers(factor.provider, provider) and _covers(factor.region, region)
        ),
        key=lambda factor: (
            factor.region is not None,
            factor.provider is not None,
            factor.valid_from,
        ),
        reverse=True,
    )


def _covers(listed: str | None, requested: str | None) -> bool:
    return listed is None or (requested is not None and listed.casefold() == requested.casefold())


def is_stale_factor(factor: GridFactor, as_of: datetime) -> bool:
    """Return whether a factor is so old that it is applied with a warning."""
    return age(factor.valid_from, as_of) > STALE_FACTOR_AFTER
