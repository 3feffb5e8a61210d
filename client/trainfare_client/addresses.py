"""Addresses of services: what may be shown of them, and which proxy is used."""

from __future__ import annotations

import ipaddress
import re
from typing import Any, Final
from urllib.parse import unquote, urlsplit

_LOGIN: Final = re.compile(r"^([A-Za-z][\w+.-]*://)?[^?#]*@")


def without_login(url: str) -> str:
    """Return an address in a form that may be shown.

    Examples
    --------
    >>> without_login("https://ada:secret@fare.example/v1")
    'https://fare.example/v1'
    """
    return _LOGIN.sub(lambda match: match[1] or "", url)


def login_of(url: str) -> tuple[str, str] | None:
    """Return the user and password in an address, None if it has none."""
    parts = urlsplit(url)
    if parts.username is None:
        return None
    return unquote(parts.username), unquote(parts.password or "")


def is_loopback(url: str) -> bool:
    """Return whether an address is of this machine, for which no proxy is used."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def unproxied(url: str) -> dict[str, Any]:
    """Return the httpx options that bypass the environment's proxy for this machine's addresses.

    Examples
    --------
    >>> unproxied("http://127.0.0.1:8000"), unproxied("https://[::1]"), unproxied("http://fare")
    ({'trust_env': False}, {'mounts': {'all://[::1]': None}}, {})
    """
    parts = urlsplit(url)
    if not is_loopback(url):
        return {}
    if parts.scheme == "http":
        return {"trust_env": False}
    # Not trust_env=False: the environment may also name the certificates.
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return {"mounts": {f"all://{host}": None}}


def proxy_to(url: str) -> str | None:
    """Return the environment's proxy for an address, in a form that may be shown."""
    # Imported late: only error messages need it.
    from urllib.request import getproxies, proxy_bypass  # noqa: PLC0415

    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    return without_login(proxy)
