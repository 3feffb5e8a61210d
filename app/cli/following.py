"""Requests fits and follows them until they end."""

import time
from collections.abc import Mapping
from typing import Any, Final

from app.cli.connection import Connection, path_of
from app.cli.output import print_note, share_progress

_POLL_INTERVAL_S: Final = 0.5
_FINAL: Final = frozenset({"succeeded", "failed", "cancelled"})


def request_fit(
    connection: Connection, workload: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Request a fit; return it, or the active one."""
    body = {name: value for name, value in options.items() if value is not None}
    fit: dict[str, Any] = connection.post(path_of(workload, "fits"), body, required="fit_id")
    return fit


def fit_all_runs(connection: Connection, workload: str) -> dict[str, Any]:
    """Fit all runs that are stored by now; return the ended fit.

    A fit that runs already may have read the runs before the last of them was stored. It is waited
    for, and another one is requested.
    """
    fit = request_fit(connection, workload, {})
    if fit["state"] == "running":
        print_note(f"Fit {fit['fit_id']} is under way already; this run is fitted after it.")
        follow(connection, fit)
        fit = request_fit(connection, workload, {})
    return follow(connection, fit)


def describe_wait(fit: Mapping[str, Any]) -> str:
    """Return a sentence on a fit that has not ended.

    Examples
    --------
    >>> describe_wait({"fit_id": "fit_1", "state": "queued", "step": "no fitter is running"})
    'Fit fit_1 is queued: no fitter is running.'
    """
    step = f": {fit['step']}" if fit.get("step") else ""
    return f"Fit {fit['fit_id']} is {fit['state']}{step}."


def follow(connection: Connection, fit: dict[str, Any]) -> dict[str, Any]:
    """Show a fit's progress until it ends; return the ended fit."""
    with share_progress() as progress:
        task, told = progress.add_task(fit["workload"], total=1.0, step=""), None
        while True:
            progress.update(task, completed=fit["progress"], step=fit.get("step") or fit["state"])
            if fit["state"] == "queued" and fit.get("step") not in (None, told):
                told = fit["step"]
                print_note(describe_wait(fit))
            if fit["state"] in _FINAL:
                return fit
            time.sleep(_POLL_INTERVAL_S)
            fit = connection.get(f"/v1/fits/{fit['fit_id']}", required="fit_id")
