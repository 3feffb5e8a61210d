"""Reads answers: documents where all went well, exceptions with a remedy where it did not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trainfare_client.errors import UnreachableError, problem_error
from trainfare_client.retrying import retry_after_s

if TYPE_CHECKING:
    import httpx

_ERRORS_FROM: Final = 400
_NO_CONTENT: Final = 204


def document_of(answer: httpx.Response) -> Any:
    """Return the answer's document, None where it has no body.

    Raises
    ------
    ProblemError
        If the service refused.
    UnreachableError
        If something else than the service answered.
    """
    check(answer)
    if answer.status_code == _NO_CONTENT:
        return None
    try:
        document = answer.json()
    except ValueError:
        raise _stranger(answer) from None
    if not isinstance(document, dict):
        raise _stranger(answer)
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
    if answer.status_code < _ERRORS_FROM:
        return
    try:
        problem = answer.json()
    except ValueError:
        raise _stranger(answer) from None
    if not isinstance(problem, dict) or "code" not in problem:
        raise _stranger(answer)
    pause_s = retry_after_s(answer.headers.get("retry-after"))
    raise problem_error(answer.status_code, problem, retry_after_s=pause_s)


def unreachable(url: str, error: Exception) -> UnreachableError:
    """Return the exception of a service that does not answer."""
    return UnreachableError(
        f"{url} does not answer: {str(error) or type(error).__name__}.",
        "Is the service up, and is TRAINFARE_URL its address?",
    )


def _stranger(answer: httpx.Response) -> UnreachableError:
    return UnreachableError(
        f"{answer.url} answered {answer.status_code}, but not as Trainfare does.",
        "Is TRAINFARE_URL the address of a Trainfare service?",
    )
