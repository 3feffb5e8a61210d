"""Prices and GPU names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client.requests import delete, get, path_of, post

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from trainfare_client._async.transport import AsyncTransport
    from trainfare_client.documents import CreatedPrices, Gpu, GpuDirectory, Price
    from trainfare_client.requests import Request


class AsyncPrices:
    """The project's own prices and the built-in catalogue."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    def all(self, *, page_size: int | None = None, **filters: Any) -> AsyncIterator[Price]:
        """Yield prices, own ones first; `filters` such as `gpu_type`, `as_of`, `origin`."""
        return self._transport.items(
            path_of("prices"), "prices", {"page_size": page_size, **filters}
        )

    async def add(self, prices: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> CreatedPrices:
        """Add one or several prices, all or none; own prices take precedence over the catalogue."""
        request: Request[CreatedPrices] = post(path_of("prices"), prices)
        return await self._transport.send(request)

    async def withdraw(self, price_id: str) -> None:
        """Withdraw a price; it stays on record for past costs."""
        await self._transport.send(delete(path_of("prices", price_id)))


class AsyncGpus:
    """GPU names and data sheets."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def all(self) -> GpuDirectory:
        """Return all known GPUs, ambiguous names, and names without a data sheet."""
        request: Request[GpuDirectory] = get(path_of("gpus"))
        return await self._transport.send(request)

    async def get(self, name: str) -> Gpu:
        """Return a GPU by any spelling of its name.

        Raises
        ------
        AmbiguousGpuError
            If the name stands for several; the remedy names them.
        """
        request: Request[Gpu] = get(path_of("gpus", *name.split("/")))
        return await self._transport.send(request)
