"""Sends requests, with retries where these help."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from trainfare_client.addresses import login_of, unproxied
from trainfare_client.answers import (
    document_of,
    foreign_answer,
    raise_for_problem,
    unreachable,
    unusable_proxy,
)
from trainfare_client.errors import NotFoundError
from trainfare_client.events import EventReader
from trainfare_client.requests import Request, get
from trainfare_client.retrying import Retries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    import httpx

    from trainfare_client.settings import ClientSettings

T = TypeVar("T")
_LONGEST_SILENCE_S: Final = 45.0
"""Without an event, the service sends a comment every 15 s."""


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

    async def documents(self, path: str, is_last: Callable[[Any], bool]) -> AsyncIterator[Any]:
        """Yield the documents of server-sent events as they arrive, until the last one.

        A stream that breaks, falls silent or ends before is opened anew.

        Raises
        ------
        ProblemError
            If the service refused.
        UnreachableError
            If it does not answer, after as many attempts as other requests have, or something else
            answers.
        """
        retries = Retries(self.settings)
        while True:
            try:
                async with self._stream(path) as answer:
                    pause_s = retries.pause_after(answer)
                    if pause_s is None:
                        async for document in _documents_in(answer, is_last):
                            retries = Retries(self.settings)
                            yield document
                        return
            except _transport_error() as error:
                pause_s = retries.pause_after_error(error)
                if pause_s is None:
                    raise unreachable(self.settings.shown_url, error) from error
            await asyncio.sleep(pause_s)

    @asynccontextmanager
    async def _stream(self, path: str) -> AsyncIterator[httpx.Response]:
        import httpx  # noqa: PLC0415 - as above

        timeout_s = self.settings.timeout_s
        timeout = httpx.Timeout(timeout_s, read=max(timeout_s, _LONGEST_SILENCE_S))
        async with self._connections().stream("GET", path, timeout=timeout) as answer:
            if not answer.is_success:
                await answer.aread()
            yield answer

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None


async def _documents_in(
    answer: httpx.Response, is_last: Callable[[Any], bool]
) -> AsyncIterator[Any]:
    raise_for_problem(answer)
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        raise foreign_answer(answer)
    reader = EventReader()
    async for line in answer.aiter_lines():
        document = reader.read(line)
        if document is not None:
            yield document
            if is_last(document):
                return
    raise _transport_error()("The stream ended too early")


def _transport_error() -> type[Exception]:
    import httpx  # noqa: PLC0415 - as above

    # Also covers a body that cannot be decoded, not just transport errors.
    return httpx.RequestError
