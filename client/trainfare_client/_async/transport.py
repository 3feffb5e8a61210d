"""Sends requests, with retries where these help."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast

from trainfare_client.addresses import login_of, unproxied
from trainfare_client.answers import (
    document_of,
    foreign_answer,
    raise_for_problem,
    unreachable,
    unusable_proxy,
)
from trainfare_client.errors import NotFoundError
from trainfare_client.requests import Request, get
from trainfare_client.retrying import Retries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    import httpx

    from trainfare_client.settings import ClientSettings

T = TypeVar("T")


class AsyncTransport:
    """Connections to one service, made when they are first needed."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._http: httpx.AsyncClient | None = None

    def _connections(self) -> httpx.AsyncClient:
        # httpx takes longer to import than the rest of this package.
        import httpx  # noqa: PLC0415

        if self._http is None:
            url, key = self.settings.url, self.settings.api_key
            try:
                self._http = httpx.AsyncClient(
                    # Without the login: answers and httpx's log show this address.
                    base_url=self.settings.shown_url,
                    auth=login_of(url),
                    headers={"Authorization": f"Bearer {key}"} if key else {},
                    timeout=self.settings.timeout_s,
                    **unproxied(url),
                )
            except (ImportError, ValueError) as error:
                raise unusable_proxy(error) from error
        return self._http

    async def send(self, request: Request[T]) -> T:
        """Return the document that answers a request.

        A removal that finds nothing has succeeded if an earlier attempt, whose answer was lost,
        may have removed it.

        Raises
        ------
        ProblemError
            If the service refused.
        UnreachableError
            If it did not answer, after all attempts.
        """
        retries = Retries(self.settings)
        answer = await self._last_answer(request, retries)
        try:
            document: T = document_of(answer, request.expected_field)
        except NotFoundError:
            if request.method != "DELETE" or not retries.may_have_succeeded:
                raise
            return cast("T", None)
        return document

    async def answer(self, request: Request[Any]) -> httpx.Response:
        """Return the last answer to a request, whatever its status.

        Raises
        ------
        UnreachableError
            If the service did not answer, after all attempts.
        """
        return await self._last_answer(request, Retries(self.settings))

    async def _last_answer(self, request: Request[Any], retries: Retries) -> httpx.Response:
        while True:
            try:
                answer = await self._attempt(request)
                pause_s = retries.pause_after(answer)
                if pause_s is None:
                    return answer
            except _transport_error() as error:
                pause_s = retries.pause_after_error(error)
                if pause_s is None:
                    raise unreachable(self.settings.shown_url, error) from error
            await asyncio.sleep(pause_s)

    async def _attempt(self, request: Request[Any]) -> httpx.Response:
        return await self._connections().request(
            request.method,
            request.path,
            params=list(request.params),
            headers=dict(request.headers),
            content=request.content,
            timeout=self.settings.timeout_s + request.wait_s,
        )

    async def items(
        self, path: str, name: str, params: Mapping[str, Any] | None = None
    ) -> AsyncIterator[Any]:
        """Yield the items of a list, page after page."""
        token: str | None = None
        while True:
            query = {**(params or {}), "page_token": token}
            page = await self.send(get(path, query, expected_field=name))
            for item in page[name]:
                yield item
            token = page.get("next_page_token")
            if token is None:
                return

    @asynccontextmanager
    async def lines(self, path: str) -> AsyncIterator[AsyncIterator[str]]:
        """Yield the lines of an answer as they arrive.

        Raises
        ------
        ProblemError
            If the service refused.
        UnreachableError
            If it does not answer, something else answers, or the stream breaks.
        """
        try:
            async with self._connections().stream("GET", path, timeout=None) as answer:
                if not answer.is_success:
                    await answer.aread()
                raise_for_problem(answer)
                if not answer.headers.get("content-type", "").startswith("text/event-stream"):
                    raise foreign_answer(answer)
                yield answer.aiter_lines()
        except _transport_error() as error:
            raise unreachable(self.settings.shown_url, error) from error

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None


def _transport_error() -> type[Exception]:
    import httpx  # noqa: PLC0415 - as above

    # Also covers a body that cannot be decoded, not just transport errors.
    return httpx.RequestError
