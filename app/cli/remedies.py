"""Translates the service's remedies from terms of the API to those of the command line."""

import re
from typing import Final

_TRANSLATIONS: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\?on_invalid=skip", "--skip-invalid"),
        # The name of a file says of what type it is.
        (r"send it with the header Content-Type: application/json, or", "name it .json, or"),
        (r"send it with the header Content-Encoding: gzip", "name it .gz"),
        (r"send it with the header Content-Encoding: zstd", "name it .zst"),
        (r"\bapplication/x-ndjson\b", ".ndjson"),
        (r"Send `Authorization: Bearer KEY`", "Give it with --api-key (TRAINFARE_API_KEY)"),
        (r"Leave the `Authorization` header out", "Leave --api-key (TRAINFARE_API_KEY) out"),
        (r"POST /v1/workloads/\{workload\}/fits", "`trainfare fit WORKLOAD`"),
        (r"POST /v1/workloads/([^/\s]+)/fits", r"`trainfare fit \1`"),
        (r"POST /v1/runs\b", "`trainfare upload FILE`"),
        # After a point it is a part of a name, such as that of a parameter.
        (r"(?<!\.)\b(?:pricing\.spot|pricing|energy)\.(?=[a-z])", ""),
        (r"(?<!\.)\bsearch\.(gpu_type|instance_type|provider|region)s\b", r"\1"),
        (r"(?<!\.)\bsearch\.(?=[a-z])", ""),
        (r"^Wait as long as Retry-After says\.$", ""),
        (r"^Retry as Retry-After says; nothing", "Nothing"),
        (r", then `trainfare", ", then type `trainfare"),
    )
)
_LISTS: Final = {
    "project": "`trainfare projects list` shows all.",
    "key": "`trainfare keys list` shows all.",
}


def in_cli_words(text: str) -> str:
    """Return a remedy, or a sentence with one, in terms of the command line.

    Examples
    --------
    >>> in_cli_words("Say pricing.price_per_hour; ?on_invalid=skip takes the good runs.")
    'Say price_per_hour; --skip-invalid takes the good runs.'
    """
    for pattern, replacement in _TRANSLATIONS:
        text = pattern.sub(replacement, text)
    return text


def where_listed(kind: str) -> str | None:
    """Return the command that lists the items of a kind, None if there is none."""
    return _LISTS.get(kind)
