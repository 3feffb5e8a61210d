"""Reports of a CI system: new runs in, a verdict out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client.requests import get, path_of, post, without_none

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from trainfare_client._async.transport import AsyncTransport
    from trainfare_client.documents import CiReport
    from trainfare_client.requests import Request


class AsyncCi:
    """The CI reports of the key's project."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def report(
        self,
        runs: Sequence[Mapping[str, Any]],
        *,
        workload: str | None = None,
        idempotency_key: str | None = None,
        **options: Any,
    ) -> CiReport:
        """Store new runs and return whether they became slower.

        `options` may hold `commit`, `branch`, `base_branch`, `pull_request` and `gate`.
        """
        body = {"runs": list(runs), **without_none(workload=workload), **options}
        request: Request[CiReport] = post(
            path_of("ci", "reports"),
            body,
            idempotency_key=idempotency_key,
            expected_field="verdict",
        )
        return await self._transport.send(request)

    def all(self, *, page_size: int | None = None) -> AsyncIterator[CiReport]:
        """Yield all reports, newest first."""
        return self._transport.items(path_of("ci", "reports"), "reports", {"page_size": page_size})

    async def get(self, report_id: str) -> CiReport:
        """Return a report."""
        request: Request[CiReport] = get(path_of("ci", "reports", report_id))
        return await self._transport.send(request)

    async def acknowledge(self, report_id: str, *, author: str, reason: str) -> CiReport:
        """Accept a report's durations as the new normal."""
        path = path_of("ci", "reports", report_id) + ":acknowledge"
        request: Request[CiReport] = post(path, {"author": author, "reason": reason})
        return await self._transport.send(request)

    async def promote(self, report_id: str) -> CiReport:
        """Include a report's runs in fits: its branch was merged."""
        path = path_of("ci", "reports", report_id) + ":promote"
        request: Request[CiReport] = post(path, {})
        return await self._transport.send(request)
