"""Reads answers: documents where all went well, exceptions with a remedy where it did not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trainfare_client.errors import UnreachableError, problem_error
from trainfare_client.retrying import retry_after_s

if TYPE_CHECKING:
    import httpx

    from trainfare_client.errors import ProblemError

_NO_CONTENT: Final = 204
_TOO_LARGE: Final = 413
_REFUSED_BEFORE: Final = frozenset({401, 403, 407})


def document_of(answer: httpx.Response, telling: str = "") -> Any:
    """Return the answer's document, None where it has no body.

    Parameters
    ----------
    telling
        A field that the service's answer has and a stranger's hardly does.

    Raises
    ------
    ProblemError
        If the service refused.
    UnreachableError
        If something else than the service answered.
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
    """Refuse an answer that is a problem.

    Raises
    ------
    ProblemError
        If the service refused.
    UnreachableError
        If something else than the service answered.
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
    """Return the exception of a service that does not answer."""
    return UnreachableError(
        f"{url} does not answer: {str(error) or type(error).__name__}.",
        "Is the service up, and is TRAINFARE_URL its address?",
    )


def stranger(answer: httpx.Response) -> UnreachableError:
    """Return the exception of an answer that is not the service's."""
    said = f"{answer.url} answered {answer.status_code}, but not as Trainfare does"
    if answer.has_redirect_location:
        return UnreachableError(
            f"{said}: it points to {answer.headers['location']}.",
            "Name the address that it has now by TRAINFARE_URL.",
        )
    if answer.status_code in _REFUSED_BEFORE:
        remedy = "Does a proxy or a login page stand before the service?"
    elif answer.is_server_error:
        remedy = "A proxy may stand before a service that is down; try again later."
    else:
        remedy = "Is TRAINFARE_URL the address of a Trainfare service?"
    return UnreachableError(f"{said}.", remedy)


def _too_large(answer: httpx.Response) -> ProblemError:
    size = len(answer.request.content)
    problem = {
        "code": "payload_too_large",
        "title": "Too large for a proxy",
        "detail": f"What stands before {answer.url} takes no body of {size:,} bytes.",
        "remedy": "Upload fewer runs in a request, or let the proxy take larger bodies.",
    }
    return problem_error(answer.status_code, problem)
