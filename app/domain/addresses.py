"""Addresses: which can be reached safely, and what part of them may be shown."""

import ipaddress
import re
from functools import lru_cache
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


@lru_cache(maxsize=64)
def is_local_name(host: str) -> bool:
    """Return whether a Host header names a machine as the public DNS cannot.

    Whoever owns a name of the public DNS can let it lead to any address, also to the loopback
    address of whoever reads a page of theirs. Addresses and names of one label are no such names.

    Examples
    --------
    >>> [is_local_name(host) for host in ("127.0.0.1:8000", "[::1]:80", "LocalHost", "a.localhost")]
    [True, True, True, True]
    >>> [is_local_name(host) for host in ("fare.example:8000", "127.0.0.1.example", "[", "")]
    [False, False, False, False]
    """
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    if not name:
        return False
    labels = name.removesuffix(".").split(".")
    # No top-level domain is a number, so these are addresses.
    return len(labels) == 1 or labels[-1] == "localhost" or labels[-1].isdigit()


def is_safe_url(url: str) -> bool:
    """Return whether content cannot be altered in transit: HTTPS, or this machine itself."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if parts.scheme == "https":
        return bool(parts.hostname)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")
