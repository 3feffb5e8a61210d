"""Exchange rates and grid factors, which convert prices and energy to a user's units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client.requests import delete, path_of, post

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from trainfare_client._async.transport import AsyncTransport
    from trainfare_client.money import (
        CreatedExchangeRates,
        CreatedGridFactors,
        ExchangeRate,
        GridFactor,
    )
    from trainfare_client.requests import Request


class AsyncExchangeRates:
    """The project's dated exchange rates."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def all(self, *, page_size: int | None = None) -> AsyncIterator[ExchangeRate]:
        """Yield rates, the newest first."""
        return self._transport.items(
            path_of("exchange-rates"), "exchange_rates", {"page_size": page_size}
        )

    async def add(
        self, rates: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> CreatedExchangeRates:
        """Add one or several rates, all or none."""
        request: Request[CreatedExchangeRates] = post(path_of("exchange-rates"), rates)
        return await self._transport.send(request)

    async def withdraw(self, rate_id: str) -> None:
        """Withdraw a rate; it stays on record for past costs."""
        await self._transport.send(delete(path_of("exchange-rates", rate_id)))


class AsyncGridFactors:
    """CO2e per kilowatt hour: the project's own factors and built-in ones."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def all(self, *, page_size: int | None = None, **filters: Any) -> AsyncIterator[GridFactor]:
        """Yield factors, own ones first; `filters` such as `origin`."""
        return self._transport.items(
            path_of("grid-factors"), "grid_factors", {"page_size": page_size, **filters}
        )

    async def add(
        self, factors: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    ) -> CreatedGridFactors:
        """Add one or several factors, all or none; own ones take precedence over built-in ones."""
        request: Request[CreatedGridFactors] = post(path_of("grid-factors"), factors)
        return await self._transport.send(request)

    async def withdraw(self, factor_id: str) -> None:
        """Withdraw a factor; it stays on record for past estimates."""
        await self._transport.send(delete(path_of("grid-factors", factor_id)))
