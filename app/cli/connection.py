"""Talks to a running service: sends the key, retries, and raises its problems as errors."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import quote

import httpx2
import stamina
from rich.markup import escape

from app.cli.failures import RefusedError, UnreachableError, UsageError
from app.cli.output import SHOWN_FAULTS, notes, print_note
from app.cli.remedies import in_cli_words
from app.domain.addresses import without_login
from app.domain.wording import say_seconds
from app.services.identity.proxies import proxy_to, unproxied

_TIMEOUT_S: Final = 60.0
_ATTEMPTS: Final = 4
_RETRIED: Final = frozenset({429, 502, 503, 504})
_MAX_PAUSE_S: Final = 60.0
"""A rate limit per minute is waited out; a longer `Retry-After` is reported at once."""

_NOTED_PAUSE_S: Final = 3.0
_MIN_ERROR_STATUS: Final = 400
_TOO_LARGE: Final = 413
_MAX_PORT: Final = 65535
_UNTRUSTED_CERTIFICATE: Final = "CERTIFICATE_VERIFY_FAILED"
_START: Final = (
    "Start the service (`trainfare serve --with-fitter`) or name it with --url (TRAINFARE_URL)."
)
_NAME_AUTHORITY: Final = (
    "Name the file of the authority that signed the certificate by SSL_CERT_FILE, or the host as"
    " the certificate does."
)
_CHECK_URL: Final = "Is --url the address of a Trainfare service?"
_BEHIND_PROXY: Final = "A proxy may stand before a service that is down; try again later."
_SEND_LESS: Final = (
    "A proxy may stand before the service: upload smaller files, or let it take larger bodies"
    " (nginx: client_max_body_size)."
)
_SEE_ROWS: Final = "; `trainfare upload FILE --dry-run --skip-invalid --json` prints them"
_KEY: Final = re.compile(r"[!-~]+")


class _RetryLaterError(Exception):
    """The service answered that a retry may succeed."""

    def __init__(self, answer: httpx2.Response) -> None:
        super().__init__(f"status {answer.status_code}")
        self.answer = answer


def _retry_after_s(answer: httpx2.Response) -> float | None:
    header = answer.headers.get("retry-after", "")
    return float(header) if header.isdecimal() else None


def _pause(error: Exception) -> bool | float:
    if isinstance(error, _RetryLaterError):
        pause_s = _retry_after_s(error.answer)
        if pause_s is None:
            return True
        return pause_s if pause_s <= _MAX_PAUSE_S else False
    return isinstance(error, httpx2.TransportError)


def _note_retry(details: stamina.instrumentation.RetryDetails) -> None:
    if details.retry_num == 1:
        later = f" in {details.wait_for:.0f} s" if details.wait_for >= _NOTED_PAUSE_S else ""
        print_note(f"No answer yet ({details.caused_by}); trying again{later}.")


def _is_http(address: httpx2.URL) -> bool:
    is_port = address.port is None or 0 < address.port <= _MAX_PORT
    return address.scheme in {"http", "https"} and bool(address.host) and is_port


class Connection:
    """A client of one service, used by one command."""

    def __init__(self, url: str, key: str | None) -> None:
        # Messages show the address, so the login is removed.
        self.url = without_login(url.strip().rstrip("/"))
        headers = _authorization(key)
        stamina.instrumentation.set_on_retry_hooks([_note_retry])
        try:
            address = httpx2.URL(url.strip())
            login = (address.username, address.password) if address.userinfo else None
            self._client = httpx2.Client(
                base_url=self.url,
                headers=headers,
                auth=login,
                timeout=_TIMEOUT_S,
                **unproxied(address),
            )
        except httpx2.InvalidURL as error:
            raise UsageError(f"{self.url!r} is not a URL: {error}.", "Correct --url.") from None
        except (ImportError, ValueError) as error:
            raise UsageError(
                f"The environment's proxy cannot be used: {error}",
                "Correct HTTP_PROXY and the like.",
            ) from None
        if not _is_http(address):
            raise UsageError(
                f"{self.url!r} is not an http or https URL.",
                "Write --url (TRAINFARE_URL) with its scheme, such as http://localhost:8000.",
            )

    def ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """Return the answer to a request that may safely be repeated.

        Raises
        ------
        UnreachableError
            If the service does not answer after several attempts.
        RefusedError
            If it answers with a problem.
        """
        return self.ask_with(lambda client: client.request(method, path, **options))

    def ask_with(self, send: Callable[[httpx2.Client], httpx2.Response]) -> httpx2.Response:
        """Return the answer to `send`, which is called once per attempt; raises like `ask`."""
        return checked(self.answer_to(send))

    def answer_to(self, send: Callable[[httpx2.Client], httpx2.Response]) -> httpx2.Response:
        """Return the answer to `send` even if it is a refusal."""

        @stamina.retry(on=_pause, attempts=_ATTEMPTS, timeout=_TIMEOUT_S, wait_initial=0.3)
        def attempt() -> httpx2.Response:
            answer = send(self._client)
            if answer.status_code in _RETRIED:
                raise _RetryLaterError(answer)
            return answer

        try:
            return attempt()
        except _RetryLaterError as error:
            return error.answer
        except (httpx2.TransportError, httpx2.UnsupportedProtocol) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> UnreachableError:
        proxy = proxy_to(self._client.base_url)
        reason = str(error).rstrip(".") or type(error).__name__
        if proxy is not None:
            return UnreachableError(
                f"{self.url} does not answer through the proxy {proxy}: {reason}.",
                _proxy_remedy(self._client.base_url, proxy),
            )
        is_distrusted = _UNTRUSTED_CERTIFICATE in reason
        return UnreachableError(
            f"{self.url} does not answer: {reason}.", _NAME_AUTHORITY if is_distrusted else _START
        )

    def probe(self, path: str) -> None:
        """Send one GET without retries.

        Raises
        ------
        RefusedError
            If the service does not answer, or answers with a refusal.
        """
        try:
            answer = self._client.get(path)
        except httpx2.TransportError as error:
            raise RefusedError(str(error)) from None
        if is_refusal(answer):
            problem = document_of(answer)
            raise RefusedError(problem.get("detail") or str(_foreign_answer(answer)))

    def get(self, path: str, *, required: str, **options: Any) -> Any:
        """Return the JSON document at a path; it must have the field `required`."""
        return document_of(self.ask("GET", path, **options), required)

    def text(self, path: str, **options: Any) -> str:
        """Return the plain text at a path."""
        answer = self.ask("GET", path, headers={"Accept": "text/plain"}, **options)
        if not answer.headers.get("content-type", "").startswith("text/plain"):
            raise _foreign_answer(answer)
        return answer.text

    def post(self, path: str, body: Mapping[str, Any], *, required: str) -> Any:
        """Post a document and return the JSON answer, which must have the field `required`."""
        return document_of(self.ask("POST", path, json=body), required)

    def workloads(self) -> Iterator[Mapping[str, Any]]:
        """Yield the workloads, page after page."""
        token: str | None = None
        while True:
            parameters = {"page_size": "1000", **({"page_token": token} if token else {})}
            page = self.get("/v1/workloads", params=parameters, required="workloads")
            yield from page["workloads"]
            token = page.get("next_page_token")
            if token is None:
                return

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _authorization(key: str | None) -> dict[str, str]:
    # Keys read from files end with a newline; an invalid key is not shown.
    token = (key or "").strip()
    if token and not _KEY.fullmatch(token):
        raise UsageError(
            "The API key has characters that no key has.",
            "Correct --api-key (TRAINFARE_API_KEY); it is one word.",
        )
    return {"Authorization": f"Bearer {token}"} if token else {}


@contextmanager
def connected(url: str, key: str | None) -> Iterator[Connection]:
    """Yield a connection that is closed after the block."""
    connection = Connection(url, key)
    try:
        yield connection
    finally:
        connection.close()


def path_of(workload: str, *parts: str) -> str:
    """Return the path of a workload or of one of its sub-resources.

    Raises
    ------
    UsageError
        If the name is invalid: it is empty, or would lead to another path.

    Examples
    --------
    >>> path_of("resnet 50", "fits")
    '/v1/workloads/resnet%2050/fits'
    """
    if workload in {"", ".", ".."} or "/" in workload:
        raise UsageError(
            f"{workload!r} is not a workload's name.", "`trainfare workloads` lists all."
        )
    return "/".join(("/v1/workloads", quote(workload, safe=""), *parts))


def is_refusal(answer: httpx2.Response) -> bool:
    """Return whether an answer is a refusal."""
    return answer.status_code >= _MIN_ERROR_STATUS


def checked(answer: httpx2.Response) -> httpx2.Response:
    """Return an answer unless it is a refusal.

    Raises
    ------
    RefusedError
        If the service answered with a problem.
    UnreachableError
        If something other than the service answered.
    """
    if is_refusal(answer):
        raise _refusal(answer)
    return answer


def document_of(answer: httpx2.Response, *required: str) -> dict[str, Any]:
    """Return an answer's JSON document.

    Parameters
    ----------
    required
        Fields that identify the service's answer; other servers' answers hardly have them.

    Raises
    ------
    UnreachableError
        If there is no such document: something other than our service answered.
    """
    try:
        document = answer.json()
    except ValueError:
        raise _foreign_answer(answer) from None
    if not isinstance(document, dict) or not document.keys() >= set(required):
        raise _foreign_answer(answer)
    return document


def _proxy_remedy(url: httpx2.URL, proxy: str) -> str:
    return f"Is {proxy} the right proxy? NO_PROXY={url.host} bypasses it."


def _foreign_answer(answer: httpx2.Response) -> UnreachableError:
    proxy = proxy_to(answer.url)
    if answer.status_code == _TOO_LARGE:
        remedy = _SEND_LESS
    elif proxy:
        remedy = _proxy_remedy(answer.url, proxy)
    else:
        remedy = _BEHIND_PROXY if answer.is_server_error else _CHECK_URL
    return UnreachableError(
        f"{answer.url} answered {answer.status_code}, but not as this service does.", remedy
    )


def _refusal(answer: httpx2.Response) -> Exception:
    problem = document_of(answer, "code", "title", "status", "detail")
    _show_faults(problem.get("errors", []))
    code, detail = problem["code"], problem["detail"]
    headline = in_cli_words(f"{problem['title']} ({problem['status']} {code}): {detail}")
    remedy = in_cli_words(problem.get("remedy", ""))
    pause_s = _retry_after_s(answer) or 0.0
    if pause_s >= _NOTED_PAUSE_S:
        remedy = f"{remedy} Try again in {say_seconds(pause_s)}.".strip()
    return RefusedError(headline, remedy, code=code, detail=detail)


def _show_faults(faults: list[dict[str, Any]]) -> None:
    for fault in faults[:SHOWN_FAULTS]:
        row = f"row {fault['row']}" if "row" in fault else ""
        location = ", ".join(part for part in (row, fault.get("field", "")) if part) or "request"
        value = f" (got {fault['value']!r})" if "value" in fault else ""
        message = in_cli_words(fault["message"]) + value
        notes.print(f"[bold]{escape(in_cli_words(location))}[/bold]: {escape(message)}")
        notes.print(f"  [dim]{escape(in_cli_words(fault['remedy']))}[/dim]")
    if len(faults) > SHOWN_FAULTS:
        how = _SEE_ROWS if "row" in faults[0] else ""
        print_note(f"... and {len(faults) - SHOWN_FAULTS} more{how}.")
