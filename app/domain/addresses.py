"""Which addresses can be trusted on the way to them."""

import ipaddress
from urllib.parse import urlsplit


def is_safe_url(url: str) -> bool:
    """Whether what is fetched cannot be altered on the way: HTTPS, or this machine itself."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    if parts.scheme != "http" or not parts.hostname:
        return False
    try:
        return ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        return parts.hostname == "localhost"
