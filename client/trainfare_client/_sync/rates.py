"""Exchange rates and grid factors, which convert prices and energy to a user's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client.requests import delete, path_of, post

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainfare_client._sync.transport import Transport
    from trainfare_client.money import (
        CreatedExchangeRates,
        CreatedGridFactors,
        ExchangeRate,
        GridFactor,
    )
    from trainfare_client.requests import Request


class ExchangeRates:
    """The project's dated exchange rates."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def all(self, *, page_size: int | None = None) -> Iterator[ExchangeRate]:
        """Yield rates, the newest first."""
        return self._transport.items(
            path_of("exchange-rates"), "exchange_rates", {"page_size": page_size}
        )

    def add(self, rates: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> CreatedExchangeRates:
        """Add one or several rates, all or none."""
        request: Request[CreatedExchangeRates] = post(path_of("exchange-rates"), rates)
        return self._transport.send(request)

    def withdraw(self, rate_id: str) -> None:
        """Withdraw a rate; it stays on record for past costs."""
        self._transport.send(delete(path_of("exchange-rates", rate_id)))


class GridFactors:
    """CO2e per kilowatt hour: the project's own factors and built-in ones."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def all(self, *, page_size: int | None = None, **filters: Any) -> Iterator[GridFactor]:
        """Yield factors, own ones first; `filters` such as `origin`."""
        return self._transport.items(
            path_of("grid-factors"), "grid_factors", {"page_size": page_size, **filters}
        )

    def add(self, factors: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> CreatedGridFactors:
        """Add one or several factors, all or none; own ones take precedence over built-in ones."""
        request: Request[CreatedGridFactors] = post(path_of("grid-factors"), factors)
        return self._transport.send(request)

    def withdraw(self, factor_id: str) -> None:
        """Withdraw a factor; it stays on record for past estimates."""
        self._transport.send(delete(path_of("grid-factors", factor_id)))
