"""Delivers a measured run to the service, or into the spool, within bounded time."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from trainfare_client.categories import numbers_sent_as_text
from trainfare_client.collectors.outcomes import SUCCEEDED
from trainfare_client.errors import RunConflictError, SettingsError, UndeliveredError
from trainfare_client.settings import LOCAL_URL, ClientSettings, read_settings
from trainfare_client.spool import Spool
from trainfare_client.uploads import with_external_ids
from trainfare_client.wording import say_seconds

if TYPE_CHECKING:
    from trainfare_client.collectors.guarding import Guard
    from trainfare_client.documents import MeasuredRun, UploadAnswer, UploadedRun

DEADLINE_S: Final = 15.0
_POLL_S: Final = 0.02
_VERDICTS: Final = {"as_expected": "as expected", "slower": "slower", "faster": "faster"}


def delivery_settings(guard: Guard) -> ClientSettings:
    """Return the environment's settings, limited so that a training waits for seconds at most."""
    try:
        settings = read_settings()
    except SettingsError as error:
        guard.complain(error)
        # A long training is not lost to a wrong address or key: its run waits in the spool.
        offline_settings = read_settings(url=LOCAL_URL, api_key="none", timeout_s=1.0)
        return dataclasses.replace(offline_settings, offline=True)
    return dataclasses.replace(settings, attempts=2, timeout_s=min(settings.timeout_s, 6.0))


class Delivery:
    """Delivers one run to the service, or into the spool if that does not succeed in time.

    Parameters
    ----------
    run
        The run as measured.
    settings
        The addresses of service and spool.
    deadline_s
        How long the service may take.
    is_shared
        Whether several ranks may deliver the run under the same id; the first one counts.
    """

    def __init__(
        self,
        run: MeasuredRun,
        settings: ClientSettings,
        *,
        deadline_s: float = DEADLINE_S,
        is_shared: bool = False,
    ) -> None:
        self._run = with_external_ids(run)[0]
        self._settings = settings
        self._deadline_s = deadline_s
        self._is_shared = is_shared
        self._spool = Spool(settings.spool)
        self._thread: threading.Thread | None = None
        self._answer: UploadAnswer | None = None
        self._error: Exception | None = None
        self._is_safe = self._is_spooled = self._is_reported = False

    def upload(self) -> None:
        """Give the service its time; `settle` reports the outcome."""
        self._begin()
        if self._thread is not None:
            self._thread.join(self._deadline_s)

    async def upload_async(self) -> None:
        """Do the same as `upload`, but let asyncio's event loop continue meanwhile."""
        import asyncio

        self._begin()
        ends_at = time.monotonic() + self._deadline_s
        # Not an asyncio event: the thread may outlive the loop.
        while self._is_under_way() and time.monotonic() < ends_at:  # noqa: ASYNC110 - see above
            await asyncio.sleep(_POLL_S)

    def _is_under_way(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _begin(self) -> None:
        thread = threading.Thread(target=self._upload, name="trainfare-upload", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread can start while the interpreter shuts down.
            self._upload()
        else:
            self._thread = thread

    def settle(self) -> str:
        """Save the run if it did not arrive, and return a sentence about it.

        Raises
        ------
        UndeliveredError
            If the service refused the run, which then waits in the spool for a better key or for a
            person.
        SpoolError
            If the spool cannot be written.
        """
        self.keep()
        return self._report()

    def hurry(self, patience_s: float) -> str | None:
        """Put the run into the spool at once, then give its upload a last moment.

        For a signal that interrupts `upload`: the process may be over when this returns. Returns a
        sentence about the run, None if that was returned before.

        Raises
        ------
        UndeliveredError, SpoolError
            As for `settle`.
        """
        if self._is_reported:
            return None
        self.keep()
        if self._thread is not None:
            self._thread.join(patience_s)
        return self._report()

    def keep(self) -> None:
        """Put the run into the spool, unless it is already there or with the service.

        Raises
        ------
        SpoolError
            If the spool cannot be written.
        """
        if not self._is_safe and not self._is_reported_elsewhere():
            self._spool.append([self._run])
            self._is_safe = self._is_spooled = True

    def _is_reported_elsewhere(self) -> bool:
        return self._is_shared and isinstance(self._error, RunConflictError)

    def _withdraw(self) -> None:
        if self._is_spooled:
            self._is_spooled = False
            self._spool.withdraw(self._run)

    def _report(self) -> str:
        self._is_reported = True
        if self._is_reported_elsewhere():
            self._withdraw()
            return f"Trainfare: another rank has reported how {self._run['workload']} ended."
        if self._error is not None:
            raise UndeliveredError(self._error, self._settings.spool) from self._error
        if self._answer is not None:
            self._withdraw()
            uploaded = self._answer["runs"]
            text = sentence(self._run, uploaded[0] if uploaded else None)
            return " ".join([text, *numbers_sent_as_text(self._answer)])
        settings = self._settings
        reason = (
            "kept" if settings.offline else f"the service at {settings.shown_url} has not answered"
        )
        return (
            f"Trainfare: {reason}; the run waits in {settings.spool} for `trainfare-client flush`"
            f"{' or `ci report --from-spool`' if settings.offline else ''}."
        )

    def _upload(self) -> None:
        from trainfare_client._sync.client import Client

        try:
            with Client(settings=self._settings) as client:
                self._answer = client.runs.upload_or_spool(self._run)
                self._is_safe = True
        except Exception as error:  # noqa: BLE001 - it is raised where the caller waits
            self._error = error


def write_sentence(text: str) -> None:
    """Write a sentence to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def sentence(run: MeasuredRun, uploaded: UploadedRun | None) -> str:
    """Return a sentence on the outcome of a run, with its assessment if there is one."""
    text = f"Trainfare: {run['workload']} took {say_seconds(run['duration_seconds'])} s"
    if run.get("status", SUCCEEDED) != SUCCEEDED:
        text += f" and ended as {run['status']}"
    if uploaded is None:
        return text + "."
    text += f" ({uploaded['run_id']})"
    assessment = uploaded["assessment"]
    expected = assessment.get("expected_seconds")
    if expected is None:
        return f"{text}; nothing was forecast: {assessment.get('reason') or 'no regressor yet'}"
    band = f"{say_seconds(expected['lower'])} to {say_seconds(expected['upper'])}"
    verdict = _VERDICTS.get(assessment["verdict"], assessment["verdict"])
    return f"{text}; the forecast was {say_seconds(expected['median'])} s ({band}): {verdict}."
