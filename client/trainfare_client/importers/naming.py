"""Names workloads and runs by their names in the source, so that they stay the same."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final

_MAX_SLUG: Final = 100
_MAX_ID: Final = 200
_NO_SLUG: Final = re.compile(r"[^a-z0-9._-]+")


def slug(name: str) -> str:
    """Return the workload id for a name; empty if nothing of it is left.

    Examples
    --------
    >>> slug("Word Count / nightly"), slug("résumé_v2"), slug("***")
    ('word-count-nightly', 'resume_v2', '')
    """
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().casefold()
    return _NO_SLUG.sub("-", plain).strip("-._")[:_MAX_SLUG]


def run_key(source: str, *parts: str) -> str:
    """Return the `external_id` of a run that a source identifies by the given parts.

    Examples
    --------
    >>> run_key("slurm", "tiger", "1234")
    'slurm:tiger/1234'
    """
    key = f"{source}:{'/'.join(parts)}"
    if len(key) <= _MAX_ID and key.isprintable():
        return key
    return f"{source}:{digest(key)}"


def digest(text: str) -> str:
    """Return a digest of a text in 32 characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
