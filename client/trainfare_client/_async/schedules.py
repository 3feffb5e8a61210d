"""Schedules: order a queue, distribute GPUs, forecast how many will be needed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client.requests import path_of, post

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainfare_client._async.transport import AsyncTransport
    from trainfare_client.documents import Allocation, CapacityPlan, Ranking
    from trainfare_client.requests import Request


class AsyncSchedules:
    """Decisions over several jobs."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def rank(self, jobs: Sequence[Mapping[str, Any]], **options: Any) -> Ranking:
        """Return a queue in order.

        `options` may hold `policy` (shortest_service_first, shortest_remaining_first,
        deadline_risk), `confidence`, `ageing_s` and `unknown`.
        """
        request: Request[Ranking] = post(path_of("schedules") + ":rank", {"jobs": jobs, **options})
        return await self._transport.send(request)

    async def allocate(
        self, capacity: Mapping[str, int], jobs: Sequence[Mapping[str, Any]], **options: Any
    ) -> Allocation:
        """Return how the GPUs of `capacity` (by type) are distributed over elastic jobs.

        `options` may hold `objective`, `confidence`, `require_within_range`, `on_shortage`,
        `time_limit_s` and `pricing`.
        """
        body = {"capacity": capacity, "jobs": jobs, **options}
        request: Request[Allocation] = post(path_of("schedules") + ":allocate", body)
        return await self._transport.send(request)

    async def capacity(
        self,
        *,
        running: Sequence[Mapping[str, Any]] = (),
        queued: Sequence[Mapping[str, Any]] = (),
        **options: Any,
    ) -> CapacityPlan:
        """Return how many GPUs will be needed, hour by hour.

        `options` may hold `capacity`, `hours`, `confidence` and `seed`.
        """
        body = {"running": list(running), "queued": list(queued), **options}
        request: Request[CapacityPlan] = post(path_of("schedules") + ":capacity", body)
        return await self._transport.send(request)
