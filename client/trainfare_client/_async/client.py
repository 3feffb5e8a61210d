"""The client: one object for the service and all its resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client._async.ci import AsyncCi
from trainfare_client._async.fits import AsyncFits
from trainfare_client._async.flushing import flush
from trainfare_client._async.forecasts import AsyncForecasts
from trainfare_client._async.prices import AsyncGpus, AsyncPrices
from trainfare_client._async.rates import AsyncExchangeRates, AsyncGridFactors
from trainfare_client._async.runs import AsyncRuns
from trainfare_client._async.schedules import AsyncSchedules
from trainfare_client._async.transport import AsyncTransport
from trainfare_client._async.workloads import AsyncRegressors, AsyncWorkloads
from trainfare_client.requests import get
from trainfare_client.settings import read_settings

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from trainfare_client.settings import ClientSettings
    from trainfare_client.spool import FlushReport


class AsyncClient:
    """A client of a Trainfare service.

    Parameters
    ----------
    url
        Address of the service; else `TRAINFARE_URL`, else this machine.
    api_key
        Key of the project; else `TRAINFARE_API_KEY`.
    settings
        All settings at once, instead of the other parameters.

    Attributes
    ----------
    workloads, runs, fits, regressors, forecasts, prices, exchange_rates, grid_factors, gpus,
    schedules, ci
        The resources of the service.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: str | None = None,
        *,
        settings: ClientSettings | None = None,
    ) -> None:
        self.settings = settings or read_settings(url=url, api_key=api_key)
        self._transport = AsyncTransport(self.settings)
        self.workloads = AsyncWorkloads(self._transport)
        self.runs = AsyncRuns(self._transport)
        self.fits = AsyncFits(self._transport)
        self.regressors = AsyncRegressors(self._transport)
        self.forecasts = AsyncForecasts(self._transport)
        self.prices = AsyncPrices(self._transport)
        self.exchange_rates = AsyncExchangeRates(self._transport)
        self.grid_factors = AsyncGridFactors(self._transport)
        self.gpus = AsyncGpus(self._transport)
        self.schedules = AsyncSchedules(self._transport)
        self.ci = AsyncCi(self._transport)

    async def is_ready(self) -> bool:
        """Return whether the service says that it is ready.

        Raises
        ------
        UnreachableError
            If nothing answers.
        """
        answer = await self._transport.answer(get("/readyz"))
        return bool(answer.is_success)

    async def openapi(self) -> dict[str, Any]:
        """Return the service's OpenAPI description."""
        document: dict[str, Any] = await self._transport.send(get("/openapi.json"))
        return document

    async def flush(self) -> FlushReport:
        """Upload the runs that were spooled while the service was away.

        Raises
        ------
        UnreachableError, ServiceFailedError
            If it still is away; the runs stay in the spool.
        InProgressError
            If it is still working on an earlier attempt to store them; they stay in the spool too.
        """
        return await flush(self._transport, self.settings.spool)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
