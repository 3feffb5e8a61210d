"""Addresses: which can be reached safely, and what part of them may be shown."""

import ipaddress
import re
from typing import Final
from urllib.parse import urlsplit

_LOGIN: Final = re.compile(r"^([A-Za-z][\w+.-]*://)?[^?#]*@")


def without_login(url: str) -> str:
    """Return an address without its login, as it may be shown.

    Examples
    --------
    >>> without_login("https://ada:secret@fare.example/v1")
    'https://fare.example/v1'
    """
    return _LOGIN.sub(lambda found: found[1] or "", url)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine itself, which cannot be reached from elsewhere.

    Examples
    --------
    >>> is_loopback("LocalHost"), is_loopback("[::1]"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


def is_safe_url(url: str) -> bool:
    """Return whether content cannot be altered in transit: HTTPS, or this machine itself."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(parts.hostname)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")
