"""Requests fits and follows them until they end."""

import time
from collections.abc import Mapping
from typing import Any, Final

from app.cli.connection import Connection, path_of
from app.cli.output import print_note, share_progress

_POLL_INTERVAL_S: Final = 0.5
_DEFAULTS: Final = {"seed": 0, "regressors": None, "publish": "auto", "runs_since": None}
"""Options of a fit where a request leaves them out; the time budget is the service's."""

_FINAL: Final = frozenset({"succeeded", "failed", "cancelled"})


def request_fit(
    connection: Connection, workload: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Request a fit; return it, or the active one."""
    path = path_of(workload, "fits")
    fit: dict[str, Any] = connection.post(path, _given(options), required="fit_id")
    return fit


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def is_as_asked(fit: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Whether an active fit does what was asked: reads all stored runs, with these options.

    One that runs already may have read the runs before the last of them was stored.
    """
    asked, request = _DEFAULTS | _given(options), fit["request"]
    return fit["state"] == "queued" and all(request[name] == asked[name] for name in asked)


def fit_all_runs(
    connection: Connection, workload: str, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Fit all runs that are stored by now, with these options; return the ended fit.

    Any other fit that is active is waited for.
    """
    while not is_as_asked(fit := request_fit(connection, workload, options), options):
        print_note(f"Fit {fit['fit_id']} is under way already; yours follows it.")
        follow(connection, fit)
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
