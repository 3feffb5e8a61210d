"""Requests fits and follows them until they end."""

import time
from collections.abc import Mapping
from typing import Any, Final

from app.cli.connection import Connection, path_of
from app.cli.output import share_progress

_POLL_INTERVAL_S: Final = 0.5
_FINAL: Final = frozenset({"succeeded", "failed", "cancelled"})


def request_fit(
    connection: Connection, workload: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Request a fit; return it, or the active one."""
    body = {name: value for name, value in options.items() if value is not None}
    fit: dict[str, Any] = connection.post(path_of(workload, "fits"), body, required="fit_id")
    return fit


def follow(connection: Connection, fit: dict[str, Any]) -> dict[str, Any]:
    """Show a fit's progress until it ends; return the ended fit."""
    with share_progress() as progress:
        task = progress.add_task(fit["workload"], total=1.0, step="")
        while True:
            progress.update(task, completed=fit["progress"], step=fit.get("step") or fit["state"])
            if fit["state"] in _FINAL:
                return fit
            time.sleep(_POLL_INTERVAL_S)
            fit = connection.get(f"/v1/fits/{fit['fit_id']}", required="fit_id")
