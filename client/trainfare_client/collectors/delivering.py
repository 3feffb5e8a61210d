"""Brings a measured run to the service, or into the spool, within bounded time."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Final

from trainfare_client.collectors.outcomes import SUCCEEDED
from trainfare_client.errors import RunConflictError, UndeliveredError
from trainfare_client.spool import Spool
from trainfare_client.uploads import with_external_ids

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainfare_client.documents import MeasuredRun, UploadAnswer, UploadedRun
    from trainfare_client.settings import ClientSettings

DEADLINE_S: Final = 15.0
_WORDS: Final = {"as_expected": "as expected", "slower": "slower", "faster": "faster"}


class _Attempt:
    """What a thread found out."""

    def __init__(self) -> None:
        self.answer: UploadAnswer | None = None
        self.error: Exception | None = None


def deliver(
    run: MeasuredRun,
    settings: ClientSettings,
    *,
    deadline_s: float = DEADLINE_S,
    is_shared: bool = False,
) -> str:
    """Upload a run, or spool it when that does not succeed in time; return a sentence about it.

    Where the run `is_shared`, several ranks may tell of it under the same id; the first counts.

    Raises
    ------
    UndeliveredError
        If the service refused the run, which then waits in the spool for a better key or a
        person.
    SpoolError
        If the spool cannot be written.
    """
    identified = with_external_ids(run)[0]
    attempt = _Attempt()
    is_done = _run_in_time(lambda: _upload(identified, settings, attempt), deadline_s)
    if is_shared and isinstance(attempt.error, RunConflictError):
        return f"Trainfare: another rank has told how {run['workload']} ended."
    if attempt.error is not None or not is_done:
        Spool(settings.spool).append([identified])
    if attempt.error is not None:
        raise UndeliveredError(attempt.error, settings.spool) from attempt.error
    if attempt.answer is None:
        why = "kept" if settings.offline else f"the service at {settings.url} does not answer"
        return (
            f"Trainfare: {why}; the run waits in {settings.spool} for `trainfare-client flush`"
            f"{' or `ci report --from-spool`' if settings.offline else ''}."
        )
    uploaded = attempt.answer["runs"]
    return sentence(identified, uploaded[0] if uploaded else None)


def tell(text: str) -> None:
    """Write a sentence to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def sentence(run: MeasuredRun, uploaded: UploadedRun | None) -> str:
    """Return what became of a run, and its assessment where there is one."""
    said = f"Trainfare: {run['workload']} took {run['duration_seconds']:.4g} s"
    if run.get("status", SUCCEEDED) != SUCCEEDED:
        said += f" and ended as {run['status']}"
    if uploaded is None:
        return said + "."
    said += f" ({uploaded['run_id']})"
    judged = uploaded["assessment"]
    expected = judged.get("expected_seconds")
    if expected is None:
        return f"{said}; nothing was forecast: {judged.get('reason') or 'no regressor yet'}"
    return (
        f"{said}; forecast were {expected['median']:.4g} s ({expected['lower']:.4g} to"
        f" {expected['upper']:.4g}): {_WORDS.get(judged['verdict'], judged['verdict'])}."
    )


def _upload(run: MeasuredRun, settings: ClientSettings, attempt: _Attempt) -> None:
    from trainfare_client._sync.client import Client

    try:
        with Client(settings=settings) as client:
            attempt.answer = client.runs.upload_or_spool(run)
    except Exception as error:  # noqa: BLE001 - it is raised where the caller waits
        attempt.error = error


def _run_in_time(work: Callable[[], None], deadline_s: float) -> bool:
    thread = threading.Thread(target=work, name="trainfare-upload", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # No thread starts any more while the interpreter ends.
        work()
        return True
    thread.join(deadline_s)
    return not thread.is_alive()
