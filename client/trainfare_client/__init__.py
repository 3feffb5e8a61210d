"""Client of Trainfare: measured training runs go in, forecasts of time and cost come out.

Names are loaded on first use, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from trainfare_client._async.client import AsyncClient
    from trainfare_client._sync.client import Client
    from trainfare_client.collectors.plain import record
    from trainfare_client.errors import ProblemError, TrainfareError, UnreachableError
    from trainfare_client.settings import ClientSettings, read_settings

__all__ = [
    "AsyncClient",
    "Client",
    "ClientSettings",
    "ProblemError",
    "TrainfareError",
    "UnreachableError",
    "read_settings",
    "record",
]

_HOMES: Final = {
    "AsyncClient": "_async.client",
    "Client": "_sync.client",
    "ClientSettings": "settings",
    "ProblemError": "errors",
    "TrainfareError": "errors",
    "UnreachableError": "errors",
    "read_settings": "settings",
    "record": "collectors.plain",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
