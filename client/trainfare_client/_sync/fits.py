"""Fits: request them, follow them, wait for their end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.answers import document_of
from trainfare_client.errors import FitFailedError, FitTimeoutError
from trainfare_client.progress import ProgressBar
from trainfare_client.requests import get, path_of, post, without_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from trainfare_client._sync.transport import Transport
    from trainfare_client.documents import Fit
    from trainfare_client.requests import Request

_ACCEPTED: Final = 202
"""The status of the answer with a new fit."""

_FINAL: Final = frozenset({"succeeded", "failed", "cancelled"})
_DEFAULTS: Final = {"seed": 0, "regressors": None, "publish": "auto", "runs_since": None}
"""Options of a fit where a request leaves them out; the time budget is the service's."""

_POLL_S: Final = 10.0
"""How long the service may hold back one answer; it answers at once when the fit has ended."""


class Fits:
    """The fits of workloads' regressors."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def request(
        self,
        workload: str,
        *,
        time_budget_s: float | None = None,
        seed: int | None = None,
        regressors: Sequence[str] | None = None,
        publish: str | None = None,
        wait_s: float = 0,
        **options: Any,
    ) -> Fit:
        """Request a fit and return it, or the active one; waits up to `wait_s` (60 at most).

        An active one has the options in its `request`, and if it runs already, it may lack the runs
        that were stored since it began: see `run`.
        """
        body = without_none(
            time_budget_s=time_budget_s, seed=seed, regressors=regressors, publish=publish
        )
        return self._transport.send(_request_of(workload, {**body, **options}, wait_s))

    def run(self, workload: str, *, timeout_s: float = 600.0, **options: Any) -> Fit:
        """Fit all runs that are stored by now, with the options of `request`; return the fit.

        Any other fit that is active is waited for.

        Raises
        ------
        FitFailedError
            If the fit failed or was cancelled.
        FitTimeoutError
            If it has not ended after `timeout_s`, or the other one has not.
        """
        ends_at = time.monotonic() + timeout_s
        while True:
            request = _request_of(workload, without_none(**options))
            answer = self._transport.answer(request)
            fit: Fit = document_of(answer, request.expected_field)
            is_ours = answer.status_code == _ACCEPTED or _is_as_asked(fit, options)
            try:
                ended = self._wait(fit["fit_id"], ends_at, timeout_s)
            except FitFailedError:
                if is_ours:
                    raise
            else:
                if is_ours:
                    return ended

    def get(self, fit_id: str, *, wait_s: float = 0) -> Fit:
        """Return a fit; with `wait_s` (60 at most), when it has ended or that time is over."""
        request: Request[Fit] = get(path_of("fits", fit_id), wait_s=wait_s)
        return self._transport.send(request)

    def wait(self, fit_id: str, *, timeout_s: float = 600.0) -> Fit:
        """Return a fit that has succeeded, with a progress bar on a terminal.

        Raises
        ------
        FitFailedError
            If it failed or was cancelled.
        FitTimeoutError
            If it is still active after `timeout_s`.
        """
        return self._wait(fit_id, time.monotonic() + timeout_s, timeout_s)

    def _wait(self, fit_id: str, ends_at: float, timeout_s: float) -> Fit:
        with ProgressBar(fit_id, total=1.0) as progress:
            while True:
                remaining_s = ends_at - time.monotonic()
                fit = self.get(fit_id, wait_s=max(1.0, min(_POLL_S, remaining_s)))
                progress.show(fit["progress"])
                if _has_ended(fit):
                    return _succeeded(fit)
                if time.monotonic() >= ends_at:
                    raise FitTimeoutError(fit, timeout_s)

    def events(self, fit_id: str) -> Iterator[Fit]:
        """Yield a fit whenever it changes, until it has ended (server-sent events).

        A stream that breaks is opened anew.
        """
        path, latest = path_of("fits", fit_id, "events"), None
        for fit in self._transport.documents(path, _has_ended):
            if fit != latest:
                latest = fit
                yield fit

    def cancel(self, fit_id: str) -> Fit:
        """Cancel a fit: a queued one at once, a running one at its next step."""
        request: Request[Fit] = post(path_of("fits", fit_id) + ":cancel", {})
        return self._transport.send(request)

    def all(self, workload: str, *, page_size: int | None = None) -> Iterator[Fit]:
        """Yield a workload's fits, newest first."""
        path = path_of("workloads", workload, "fits")
        return self._transport.items(path, "fits", {"page_size": page_size})


def _has_ended(fit: Fit) -> bool:
    return fit["state"] in _FINAL


def _request_of(workload: str, options: Mapping[str, Any], wait_s: float = 0) -> Request[Fit]:
    return post(path_of("workloads", workload, "fits"), options, wait_s=wait_s)


def _is_as_asked(fit: Fit, options: Mapping[str, Any]) -> bool:
    """Return whether an active fit has these options and reads all runs that are stored by now.

    One that runs already may have read the runs before the last of them was stored.
    """
    asked = {**_DEFAULTS, **without_none(**options)}
    return fit["state"] == "queued" and all(
        fit["request"].get(name) == asked[name] for name in asked
    )


def _succeeded(fit: Fit) -> Fit:
    if fit["state"] != "succeeded":
        raise FitFailedError(fit)
    return fit
