"""Prices and GPU names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client.requests import delete, get, path_of, post

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainfare_client._sync.transport import Transport
    from trainfare_client.documents import CreatedPrices, Gpu, GpuDirectory, Price
    from trainfare_client.requests import Request


class Prices:
    """The project's own prices and the built-in catalogue."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def all(self, *, page_size: int | None = None, **filters: Any) -> Iterator[Price]:
        """Yield prices, own ones first; `filters` such as `gpu_type`, `as_of`, `origin`."""
        return self._transport.items(
            path_of("prices"), "prices", {"page_size": page_size, **filters}
        )

    def add(self, prices: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> CreatedPrices:
        """Add one or several prices, all or none; own prices take precedence over the catalogue."""
        request: Request[CreatedPrices] = post(path_of("prices"), prices)
        return self._transport.send(request)

    def withdraw(self, price_id: str) -> None:
        """Withdraw a price; it stays on record for past costs."""
        self._transport.send(delete(path_of("prices", price_id)))


class Gpus:
    """GPU names and data sheets."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def all(self) -> GpuDirectory:
        """Return all known GPUs, ambiguous names, and names without a data sheet."""
        request: Request[GpuDirectory] = get(path_of("gpus"))
        return self._transport.send(request)

    def get(self, name: str) -> Gpu:
        """Return a GPU by any spelling of its name.

        Raises
        ------
        AmbiguousGpuError
            If the name stands for several; the remedy names them.
        """
        request: Request[Gpu] = get(path_of("gpus", *name.split("/")))
        return self._transport.send(request)
