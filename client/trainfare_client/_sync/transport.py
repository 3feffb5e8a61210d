"""Sends requests, with retries where these help."""

from __future__ import annotations

import time
from contextlib import contextmanager
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
    from collections.abc import Callable, Iterator, Mapping

    import httpx

    from trainfare_client.settings import ClientSettings

T = TypeVar("T")
_LONGEST_SILENCE_S: Final = 45.0
"""Without an event, the service sends a comment every 15 s."""


class Transport:
    """Connections to one service, made when they are first needed."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._http: httpx.Client | None = None

    def _connections(self) -> httpx.Client:
        # httpx takes longer to import than the rest of this package.
        import httpx  # noqa: PLC0415

        if self._http is None:
            url, key = self.settings.url, self.settings.api_key
            try:
                self._http = httpx.Client(
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

    def send(self, request: Request[T]) -> T:
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
        answer = self._last_answer(request, retries)
        try:
            document: T = document_of(answer, request.expected_field)
        except NotFoundError:
            if request.method != "DELETE" or not retries.may_have_succeeded:
                raise
            return cast("T", None)
        return document

    def answer(self, request: Request[Any]) -> httpx.Response:
        """Return the last answer to a request, whatever its status.

        Raises
        ------
        UnreachableError
            If the service did not answer, after all attempts.
        """
        return self._last_answer(request, Retries(self.settings))

    def _last_answer(self, request: Request[Any], retries: Retries) -> httpx.Response:
        while True:
            try:
                answer = self._attempt(request)
                pause_s = retries.pause_after(answer)
                if pause_s is None:
                    return answer
            except _transport_error() as error:
                pause_s = retries.pause_after_error(error)
                if pause_s is None:
                    raise unreachable(self.settings.shown_url, error) from error
            time.sleep(pause_s)

    def _attempt(self, request: Request[Any]) -> httpx.Response:
        return self._connections().request(
            request.method,
            request.path,
            params=list(request.params),
            headers=dict(request.headers),
            content=request.content,
            timeout=self.settings.timeout_s + request.wait_s,
        )

    def items(self, path: str, name: str, params: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Yield the items of a list, page after page."""
        token: str | None = None
        while True:
            query = {**(params or {}), "page_token": token}
            page = self.send(get(path, query, expected_field=name))
            for item in page[name]:
                yield item
            token = page.get("next_page_token")
            if token is None:
                return

    def documents(self, path: str, is_last: Callable[[Any], bool]) -> Iterator[Any]:
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
                with self._stream(path) as answer:
                    pause_s = retries.pause_after(answer)
                    if pause_s is None:
                        for document in _documents_in(answer, is_last):
                            retries = Retries(self.settings)
                            yield document
                        return
            except _transport_error() as error:
                pause_s = retries.pause_after_error(error)
                if pause_s is None:
                    raise unreachable(self.settings.shown_url, error) from error
            time.sleep(pause_s)

    @contextmanager
    def _stream(self, path: str) -> Iterator[httpx.Response]:
        import httpx  # noqa: PLC0415 - as above

        timeout_s = self.settings.timeout_s
        timeout = httpx.Timeout(timeout_s, read=max(timeout_s, _LONGEST_SILENCE_S))
        with self._connections().stream("GET", path, timeout=timeout) as answer:
            if not answer.is_success:
                answer.read()
            yield answer

    def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            self._http.close()
            self._http = None


def _documents_in(answer: httpx.Response, is_last: Callable[[Any], bool]) -> Iterator[Any]:
    raise_for_problem(answer)
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        raise foreign_answer(answer)
    reader = EventReader()
    for line in answer.iter_lines():
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
