"""Reads answers: documents on success, exceptions with a remedy on failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from trainfare_client.addresses import proxy_to, without_login
from trainfare_client.errors import SettingsError, UnreachableError, problem_error
from trainfare_client.retrying import retry_after_s

if TYPE_CHECKING:
    import httpx

    from trainfare_client.errors import ProblemError

_DISTRUSTED: Final = "CERTIFICATE_VERIFY_FAILED"
_NAME_AUTHORITY: Final = (
    "Name the file of the authority that signed the certificate by SSL_CERT_FILE, or the host as"
    " the certificate does."
)
_CHECK_URL: Final = "Is the service up, and is TRAINFARE_URL its address?"
_NO_CONTENT: Final = 204
_TOO_LARGE: Final = 413
_REFUSED_BEFORE: Final = frozenset({401, 403, 407})


def document_of(answer: httpx.Response, telling: str = "") -> Any:
    """Return the answer's document, None if it has no body.

    Parameters
    ----------
    telling
        A field that the service's answer has and a stranger's hardly has.

    Raises
    ------
    ProblemError
        If the service refused.
    UnreachableError
        If something other than the service answered.
    """
    check(answer)
    if answer.status_code == _NO_CONTENT and not telling:
        return None
    try:
        document = answer.json()
    except ValueError:
        raise stranger(answer) from None
    if not isinstance(document, dict) or (telling and telling not in document):
        raise stranger(answer)
    return document


def check(answer: httpx.Response) -> None:
    """Raise an exception for an answer that is a problem.

    Raises
    ------
    ProblemError
        If the service refused.
    UnreachableError
        If something other than the service answered.
    """
    if answer.is_success:
        return
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "code" not in problem:
        if answer.status_code == _TOO_LARGE:
            raise _too_large(answer)
        raise stranger(answer)
    pause_s = retry_after_s(answer.headers.get("retry-after"))
    raise problem_error(answer.status_code, problem, retry_after_s=pause_s)


def unreachable(url: str, error: Exception) -> UnreachableError:
    """Return the exception for a service that does not answer."""
    proxy, said = proxy_to(url), str(error) or type(error).__name__
    if proxy is not None:
        return UnreachableError(
            f"{url} does not answer through the proxy {proxy}: {said}.", _past_proxy(url, proxy)
        )
    remedy = _NAME_AUTHORITY if _DISTRUSTED in said else _CHECK_URL
    return UnreachableError(f"{url} does not answer: {said}.", remedy)


def unusable_proxy(error: Exception) -> SettingsError:
    """Return the exception for an environment with a proxy that httpx does not support."""
    return SettingsError(
        f"The environment's proxy cannot be used: {error}", "Correct HTTP_PROXY and the like."
    )


def _past_proxy(url: str, proxy: str) -> str:
    return f"Is {proxy} the right proxy? NO_PROXY={urlsplit(url).hostname} bypasses it."


def stranger(answer: httpx.Response) -> UnreachableError:
    """Return the exception for an answer that is not the service's."""
    proxy = proxy_to(str(answer.url))
    said = f"{answer.url} answered {answer.status_code}, but not as Trainfare does"
    if answer.has_redirect_location:
        return UnreachableError(
            f"{said}: it points to {without_login(answer.headers['location'])}.",
            "Set TRAINFARE_URL to its present address.",
        )
    if proxy is not None:
        remedy = _past_proxy(str(answer.url), proxy)
    elif answer.status_code in _REFUSED_BEFORE:
        remedy = "Is there a proxy or a login page in front of the service?"
    elif answer.is_server_error:
        remedy = "A proxy may be in front of a service that is down; try again later."
    else:
        remedy = "Is TRAINFARE_URL the address of a Trainfare service?"
    return UnreachableError(f"{said}.", remedy)


def _too_large(answer: httpx.Response) -> ProblemError:
    size = len(answer.request.content)
    problem = {
        "code": "payload_too_large",
        "title": "Too large for a proxy",
        "detail": f"A proxy in front of {answer.url} accepts no body of {size:,} bytes.",
        "remedy": "Upload fewer runs in a request, or let the proxy take larger bodies.",
    }
    return problem_error(answer.status_code, problem)
