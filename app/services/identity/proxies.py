"""The environment's proxy, which is bypassed for addresses of this machine."""

from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpx2

from app.domain.addresses import is_loopback, without_login


def unproxied(url: httpx2.URL) -> dict[str, Any]:
    """Return the httpx2 options that bypass the proxy for an address of this machine."""
    if not is_loopback(url.host):
        return {}
    if url.scheme == "http":
        return {"trust_env": False}
    # Not trust_env=False: the environment may also name the certificates.
    host = f"[{url.host}]" if ":" in url.host else url.host
    return {"mounts": {f"all://{host}": None}}


def proxy_to(url: httpx2.URL) -> str | None:
    """Return the proxy used for an address, in a form that may be shown."""
    proxies = getproxies()
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if not proxy or is_loopback(url.host) or proxy_bypass(url.host):
        return None
    return without_login(proxy)
