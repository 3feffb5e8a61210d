"""The client: one object for the service and all its resources."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client._sync.ci import Ci
from trainfare_client._sync.fits import Fits
from trainfare_client._sync.flushing import flush
from trainfare_client._sync.forecasts import Forecasts
from trainfare_client._sync.prices import Gpus, Prices
from trainfare_client._sync.rates import ExchangeRates, GridFactors
from trainfare_client._sync.runs import Runs
from trainfare_client._sync.schedules import Schedules
from trainfare_client._sync.transport import Transport
from trainfare_client._sync.workloads import Regressors, Workloads
from trainfare_client.requests import get
from trainfare_client.settings import read_settings

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from trainfare_client.settings import ClientSettings
    from trainfare_client.spool import FlushReport


class Client:
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
        self._transport = Transport(self.settings)
        self.workloads = Workloads(self._transport)
        self.runs = Runs(self._transport)
        self.fits = Fits(self._transport)
        self.regressors = Regressors(self._transport)
        self.forecasts = Forecasts(self._transport)
        self.prices = Prices(self._transport)
        self.exchange_rates = ExchangeRates(self._transport)
        self.grid_factors = GridFactors(self._transport)
        self.gpus = Gpus(self._transport)
        self.schedules = Schedules(self._transport)
        self.ci = Ci(self._transport)

    def is_ready(self) -> bool:
        """Return whether the service says that it is ready.

        Raises
        ------
        UnreachableError
            If nothing answers.
        """
        answer = self._transport.answer(get("/readyz"))
        return bool(answer.is_success)

    def openapi(self) -> dict[str, Any]:
        """Return the service's OpenAPI description."""
        document: dict[str, Any] = self._transport.send(get("/openapi.json"))
        return document

    def flush(self) -> FlushReport:
        """Upload the runs that were spooled while the service was away.

        Raises
        ------
        UnreachableError, ServiceFailedError
            If it still is away; the runs stay in the spool.
        InProgressError
            If it is still working on an earlier attempt to store them; they stay in the spool too.
        """
        return flush(self._transport, self.settings.spool)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
