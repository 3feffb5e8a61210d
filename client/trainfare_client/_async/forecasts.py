"""Questions: forecasts, what-ifs, curves, recommendations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trainfare_client.progress import ProgressBar
from trainfare_client.requests import flat_fields, get, path_of, post, without_none
from trainfare_client.uploads import chunked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trainfare_client._async.transport import AsyncTransport
    from trainfare_client.documents import (
        AskedForecast,
        BatchAnswer,
        BatchEntry,
        Configuration,
        Curve,
        Forecast,
        Recommendation,
        RecordedForecast,
        Remaining,
        Work,
    )
    from trainfare_client.requests import Request

_BATCH_SIZE: Final = 10_000


class AsyncForecasts:
    """Forecasts of duration and cost."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def make(
        self,
        workload: str,
        *,
        configuration: Configuration | None = None,
        work: Work | None = None,
        parameters: Mapping[str, float | str] | None = None,
        **options: Any,
    ) -> Forecast:
        """Return the forecast of one configuration and its work.

        `options` may hold `confidence`, `deadline_s`, `budget`, `pricing`, `regressor_version`,
        `time_limit_quantile`, `record` and `explain`.
        """
        question = without_none(configuration=configuration, work=work, parameters=parameters)
        body = {"workload": workload, **question, **options}
        request: Request[Forecast] = post(path_of("forecasts"), body)
        return await self._transport.send(request)

    async def batch(
        self,
        requests: Iterable[AskedForecast | Mapping[str, Any]],
        *,
        defaults: Mapping[str, Any] | None = None,
        fields: list[str] | None = None,
    ) -> BatchAnswer:
        """Return the answers to any number of questions, each a forecast or a problem.

        More than 10,000 are sent in several requests. Nothing is recorded in the ledger.
        """
        shared = without_none(defaults=defaults, fields=fields)
        entries: list[BatchEntry] = []
        failed = 0
        with ProgressBar("forecasts") as progress:
            for _, chunk in chunked(requests, _BATCH_SIZE):
                body = {**shared, "requests": chunk}
                request: Request[BatchAnswer] = post(path_of("forecasts") + ":batch", body)
                answer = await self._transport.send(request)
                entries += answer["forecasts"]
                failed += answer["failed"]
                progress.advance(len(chunk))
        return {"forecasts": entries, "failed": failed}

    async def what_if(
        self,
        workload: str,
        *,
        configuration: Mapping[str, Any] | None = None,
        work: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> list[Forecast]:
        """Return the forecasts of a grid: every value may also be a list of values.

        `options` are flat fields such as `price_per_hour`. Nothing is recorded in the ledger.
        """
        params = flat_fields(
            configuration=configuration, work=work, parameters=parameters, **options
        )
        path = path_of("workloads", workload, "forecast")
        document = await self._transport.send(get(path, params))
        forecasts: list[Forecast] = document.get("forecasts", [document])
        return forecasts

    async def curve(
        self,
        workload: str,
        over: str,
        *,
        start: float | None = None,
        stop: float | None = None,
        configuration: Mapping[str, Any] | None = None,
        work: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Curve:
        """Return forecasts along one axis from `start` to `stop`, and the runs measured there."""
        fields = flat_fields(
            configuration=configuration, work=work, parameters=parameters, **options
        )
        params = {"over": over, "from": start, "to": stop, **fields}
        request: Request[Curve] = get(path_of("workloads", workload, "curve"), params)
        return await self._transport.send(request)

    async def get(self, forecast_id: str) -> RecordedForecast:
        """Return a recorded forecast with the runs that were uploaded with its id."""
        request: Request[RecordedForecast] = get(path_of("forecasts", forecast_id))
        return await self._transport.send(request)

    async def remaining(
        self,
        workload: str,
        *,
        configuration: Configuration | None = None,
        work: Work | None = None,
        progress: float | None = None,
        elapsed_s: float | None = None,
        **options: Any,
    ) -> Remaining:
        """Return how much longer a job under way takes, given its progress and elapsed time.

        `options` may hold `parameters`, `segments` (past ones on other configurations),
        `confidence` and `deadline`.
        """
        question = without_none(
            configuration=configuration, work=work, progress=progress, elapsed_s=elapsed_s
        )
        body = {"workload": workload, **question, **options}
        request: Request[Remaining] = post(path_of("forecasts") + ":remaining", body)
        return await self._transport.send(request)

    async def recommend(self, workload: str, **options: Any) -> Recommendation:
        """Return the best configurations under a deadline and a budget.

        `options` may hold `work`, `parameters`, `search`, `objective`, `deadline_s`, `budget`,
        `confidence`, `require_within_range`, `limit`, `pricing` and `regressor_version`.
        """
        body = {"workload": workload, **options}
        request: Request[Recommendation] = post(path_of("recommendations"), body)
        return await self._transport.send(request)
