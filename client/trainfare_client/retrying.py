"""Which attempts are worth repeating, and after which pause."""

from __future__ import annotations

import random
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx

    from trainfare_client.settings import ClientSettings

_RETRIED_STATUSES: Final = frozenset({429, 500, 502, 503, 504})
_CONFLICT: Final = 409


class Retries:
    """The attempts of one request.

    Every request may be repeated: reads, replacements and removals by their nature, all others
    because they carry an idempotency key that stays the same over the attempts.

    Pauses grow exponentially with full jitter, as in Brooker (2015), "Exponential backoff and
    jitter", AWS Architecture Blog: the pause after attempt k is uniform between 0 and
    `first_pause_s * 2**k`, at most `longest_pause_s`.

    Attributes
    ----------
    may_have_succeeded
        Whether an attempt may have been carried out, though its answer did not say so.
    """

    def __init__(self, settings: ClientSettings, generator: random.Random | None = None) -> None:
        self._settings = settings
        self._generator = generator or random.Random()  # noqa: S311 - jitter is no secret
        self._attempts_made = 0
        self.may_have_succeeded = False

    def pause_after_error(self, error: Exception) -> float | None:
        """Return the pause in seconds after an attempt without an answer, None if it was the last.

        Parameters
        ----------
        error
            One of httpx's.
        """
        import httpx  # noqa: PLC0415 - slow to import

        was_sent = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
        self.may_have_succeeded = self.may_have_succeeded or was_sent
        return self._next_pause()

    def _next_pause(self) -> float | None:
        self._attempts_made += 1
        if self._attempts_made >= self._settings.attempts:
            return None
        longest_s = self._settings.first_pause_s * 2.0 ** (self._attempts_made - 1)
        return self._generator.uniform(0, min(longest_s, self._settings.longest_pause_s))

    def pause_after(self, answer: httpx.Response) -> float | None:
        """Return the pause before the next attempt in seconds, None if this answer is final."""
        if not _is_worth_repeating(answer):
            return None
        self.may_have_succeeded = self.may_have_succeeded or answer.is_server_error
        pause_s = self._next_pause()
        requested_s = retry_after_s(answer.headers.get("retry-after"))
        if pause_s is None or requested_s is None:
            return pause_s
        return None if requested_s > self._settings.longest_pause_s else max(pause_s, requested_s)


def retry_after_s(header: str | None, now: datetime | None = None) -> float | None:
    """Return the seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3).

    Examples
    --------
    >>> retry_after_s("7")
    7.0
    >>> retry_after_s("soon") is None
    True
    """
    if not header:
        return None
    if header.strip().isdecimal():
        return float(header)
    try:
        instant = parsedate_to_datetime(header)
    except ValueError:
        return None
    aware = instant if instant.tzinfo else instant.replace(tzinfo=timezone.utc)
    return max(0.0, (aware - (now or datetime.now(timezone.utc))).total_seconds())


def _is_worth_repeating(answer: httpx.Response) -> bool:
    if answer.status_code in _RETRIED_STATUSES:
        return True
    return answer.status_code == _CONFLICT and b'"in_progress"' in answer.content
