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

_CERTIFICATE_FAILED: Final = "CERTIFICATE_VERIFY_FAILED"
_CERTIFICATE_REMEDY: Final = (
    "Name the file of the authority that signed the certificate by SSL_CERT_FILE, or the host as"
    " the certificate does."
)
_URL_REMEDY: Final = "Is the service up, and is TRAINFARE_URL its address?"
_NO_CONTENT: Final = 204
_TOO_LARGE: Final = 413
_ACCESS_DENIED: Final = frozenset({401, 403, 407})


def document_of(answer: httpx.Response, expected_field: str = "") -> Any:
    """Return the answer's document, None if it has no body.

    Parameters
    ----------
    expected_field
        A field that the service's answer has and a stranger's hardly has.

    Raises
    ------
    ProblemError
        If the service refused.
    UnreachableError
        If something other than the service answered.
    """
    raise_for_problem(answer)
    if answer.status_code == _NO_CONTENT and not expected_field:
        return None
    try:
        document = answer.json()
    except ValueError:
        raise foreign_answer(answer) from None
    if not isinstance(document, dict) or (expected_field and expected_field not in document):
        raise foreign_answer(answer)
    return document


def raise_for_problem(answer: httpx.Response) -> None:
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
        raise foreign_answer(answer)
    pause_s = retry_after_s(answer.headers.get("retry-after"))
    raise problem_error(answer.status_code, problem, retry_after_s=pause_s)


def unreachable(url: str, error: Exception) -> UnreachableError:
    """Return the exception for a service that does not answer."""
    proxy, reason = proxy_to(url), str(error).rstrip(".") or type(error).__name__
    if proxy is not None:
        return UnreachableError(
            f"{url} does not answer through the proxy {proxy}: {reason}.", _proxy_remedy(url, proxy)
        )
    remedy = _CERTIFICATE_REMEDY if _CERTIFICATE_FAILED in reason else _URL_REMEDY
    return UnreachableError(f"{url} does not answer: {reason}.", remedy)


def unusable_proxy(error: Exception) -> SettingsError:
    """Return the exception for an environment with a proxy that httpx does not support."""
    return SettingsError(
        f"The environment's proxy cannot be used: {error}", "Correct HTTP_PROXY and the like."
    )


def _proxy_remedy(url: str, proxy: str) -> str:
    return f"Is {proxy} the right proxy? NO_PROXY={urlsplit(url).hostname} bypasses it."


def foreign_answer(answer: httpx.Response) -> UnreachableError:
    """Return the exception for an answer that is not the service's."""
    proxy = proxy_to(str(answer.url))
    message = f"{answer.url} answered {answer.status_code}, but not as Trainfare does"
    if answer.has_redirect_location:
        return UnreachableError(
            f"{message}: it points to {without_login(answer.headers['location'])}.",
            "Set TRAINFARE_URL to its present address.",
        )
    if proxy is not None:
        remedy = _proxy_remedy(str(answer.url), proxy)
    elif answer.status_code in _ACCESS_DENIED:
        remedy = "Is there a proxy or a login page in front of the service?"
    elif answer.is_server_error:
        remedy = "A proxy may be in front of a service that is down; try again later."
    else:
        remedy = "Is TRAINFARE_URL the address of a Trainfare service?"
    return UnreachableError(f"{message}.", remedy)


def _too_large(answer: httpx.Response) -> ProblemError:
    size = len(answer.request.content)
    problem = {
        "code": "payload_too_large",
        "title": "Too large for a proxy",
        "detail": f"A proxy in front of {answer.url} accepts no body of {size:,} bytes.",
        "remedy": "Upload fewer runs in a request, or let the proxy take larger bodies.",
    }
    return problem_error(answer.status_code, problem)
