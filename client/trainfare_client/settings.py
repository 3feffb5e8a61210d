"""The service's address, and patience with it; read from the environment on demand."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from trainfare_client.addresses import without_login
from trainfare_client.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL_URL: Final = "http://127.0.0.1:8000"
_SPOOL_NAME: Final = "spool.jsonl"
_KEY_PATTERN: Final = re.compile(r"[!-~]+")


@dataclass(frozen=True)
class ClientSettings:
    """How a client calls the service.

    Attributes
    ----------
    url
        Address of the service; `shown_url` omits user and password.
    api_key
        Key of the project; None if the service needs none.
    timeout_s
        Longest silence of one attempt, in seconds.
    attempts
        How often a repeatable request is sent at most, 1 or more.
    first_pause_s, longest_pause_s
        Bounds of the pauses between attempts, in seconds. A `Retry-After` beyond the longest
        ends the attempts.
    spool
        File that keeps runs while the service does not answer.
    offline
        Whether measured runs go into the spool without trying the service first.
    """

    url: str = field(default=LOCAL_URL, repr=False)
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 30.0
    attempts: int = 4
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    spool: Path = Path(_SPOOL_NAME)
    offline: bool = False

    def __post_init__(self) -> None:
        if not _is_url(self.url):
            raise SettingsError(
                f"The address {self.shown_url!r} is not an http or https URL.",
                "Write TRAINFARE_URL with its scheme, such as http://localhost:8000.",
            )
        if self.api_key is not None and not _KEY_PATTERN.fullmatch(self.api_key):
            # Never shown: the message may end up in a log.
            raise SettingsError(
                "The API key has characters that no key has.",
                "Correct TRAINFARE_API_KEY; it is one word.",
            )
        if not self.spool.name:
            raise SettingsError(
                f"The spool {self.spool} is not a file.", "Correct TRAINFARE_SPOOL."
            )
        if self.attempts < 1 or not 0 < self.timeout_s < math.inf:
            raise SettingsError(
                f"At least one attempt is needed, and a finite timeout of more than 0 seconds;"
                f" they are {self.attempts} and {self.timeout_s:g}.",
                "Correct TRAINFARE_TIMEOUT_S.",
            )

    @property
    def shown_url(self) -> str:
        """The address in a form that may be shown."""
        return without_login(self.url)


def read_settings(
    *,
    url: str | None = None,
    api_key: str | None = None,
    timeout_s: float | None = None,
    spool: Path | str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ClientSettings:
    """Return settings: from the arguments, else the environment, else the defaults.

    The environment's names are `TRAINFARE_URL`, `TRAINFARE_API_KEY` (or `TRAINFARE_KEY`),
    `TRAINFARE_TIMEOUT_S`, `TRAINFARE_SPOOL` and `TRAINFARE_OFFLINE` (`1`: runs are kept for
    `trainfare ci report` or a flush).

    Raises
    ------
    SettingsError
        If a value is invalid.
    """
    timeout_text = environ.get("TRAINFARE_TIMEOUT_S")
    try:
        seconds = timeout_s if timeout_s is not None else float(timeout_text or 30.0)
    except ValueError:
        raise SettingsError(
            f"TRAINFARE_TIMEOUT_S {timeout_text!r} is not a number of seconds.", "Correct it."
        ) from None
    environment_key = environ.get("TRAINFARE_API_KEY") or environ.get("TRAINFARE_KEY")
    file = spool or environ.get("TRAINFARE_SPOOL") or _default_spool(environ)
    # Secrets and variables read from files end with a newline.
    return ClientSettings(
        url=(url or environ.get("TRAINFARE_URL") or LOCAL_URL).strip().rstrip("/"),
        api_key=(api_key or environment_key or "").strip() or None,
        timeout_s=seconds,
        spool=Path(file).expanduser(),
        offline=environ.get("TRAINFARE_OFFLINE", "").casefold() in {"1", "true", "yes"},
    )


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        # Only reading the port checks it.
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _default_spool(environ: Mapping[str, str]) -> Path:
    state = environ.get("XDG_STATE_HOME") or environ.get("LOCALAPPDATA")
    folder = Path(state) if state else Path("~/.local/state").expanduser()
    return folder / "trainfare" / _SPOOL_NAME
