"""Measured runs: upload them, read them, keep them while the service is away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainfare_client._sync.sending import send_measured
from trainfare_client.errors import (
    InProgressError,
    ProblemError,
    QuotaExceededError,
    ServiceFailedError,
    UnreachableError,
)
from trainfare_client.progress import ProgressBar
from trainfare_client.requests import delete, get, patch, path_of, without_none
from trainfare_client.spool import Spool
from trainfare_client.uploads import (
    chunked,
    file_upload,
    merged,
    refusal_after,
    runs_upload,
    with_external_ids,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from trainfare_client._sync.transport import Transport
    from trainfare_client.documents import Assessment, MeasuredRun, Run, UploadAnswer
    from trainfare_client.requests import Request


class Runs:
    """The measured runs of the key's project."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def upload(
        self,
        runs: MeasuredRun | Iterable[MeasuredRun],
        *,
        dry_run: bool = False,
        skip_invalid: bool = False,
        idempotency_key: str | None = None,
    ) -> UploadAnswer:
        """Upload one or several runs in one request: all are stored or none.

        Raises
        ------
        InvalidRowsError
            If a row is bad; `errors` names each. With `skip_invalid` the good rows are stored
            and the answer names the bad ones.
        """
        params = _upload_params(dry_run=dry_run, skip_invalid=skip_invalid)
        return self._transport.send(
            runs_upload(runs, params=params, idempotency_key=idempotency_key)
        )

    def upload_many(
        self,
        runs: Iterable[MeasuredRun],
        *,
        skip_invalid: bool = False,
        rows_per_request: int = 10_000,
    ) -> UploadAnswer:
        """Upload any number of runs in requests of bounded size; return one merged answer.

        Each request is stored as a whole or not at all; row numbers count over all requests. A
        progress bar is drawn if standard error is a terminal.
        """
        params = _upload_params(dry_run=False, skip_invalid=skip_invalid)
        answers: list[tuple[int, UploadAnswer]] = []
        with ProgressBar("runs") as progress:
            for offset, chunk in chunked(runs, rows_per_request):
                request = runs_upload(chunk, params=params, offset=offset)
                try:
                    answers.append((offset, self._transport.send(request)))
                except ProblemError as error:
                    raise refusal_after(offset, error) from error
                progress.advance(len(chunk))
        return merged(answers)

    def upload_file(
        self,
        file: Path | str,
        *,
        dry_run: bool = False,
        skip_invalid: bool = False,
        idempotency_key: str | None = None,
    ) -> UploadAnswer:
        """Upload a CSV, JSON or NDJSON file, also compressed (.gz, .zst).

        A repeated call uploads again: runs with an `external_id` are still stored only once, others
        once more. The same `idempotency_key` makes repeated calls within a day count as one.

        Raises
        ------
        UploadFileError
            If the name shows no type that the service reads.
        """
        params = _upload_params(dry_run=dry_run, skip_invalid=skip_invalid)
        return self._transport.send(
            file_upload(file, params=params, idempotency_key=idempotency_key)
        )

    def upload_or_spool(self, runs: MeasuredRun | Iterable[MeasuredRun]) -> UploadAnswer | None:
        """Upload runs, or spool them if the service is away or the settings say `offline`.

        Numbers of parameters that are categories are sent as text, which a warning of the answer
        says.

        Returns
        -------
        UploadAnswer or None
            None if the runs were spooled: `flush` uploads them later. Runs without an `external_id`
            get one, so that none is ever stored twice.

        Raises
        ------
        SpoolError
            If the spool cannot be written either.
        """
        identified = with_external_ids(runs)
        if self._transport.settings.offline:
            Spool(self._transport.settings.spool).append(identified)
            return None
        try:
            return send_measured(self._transport, identified)
        except (UnreachableError, ServiceFailedError, QuotaExceededError, InProgressError):
            Spool(self._transport.settings.spool).append(identified)
            return None

    def all(
        self,
        workload: str,
        *,
        status: str | None = None,
        gpu_type: str | None = None,
        excluded: bool | None = None,
        page_size: int | None = None,
        **filters: Any,
    ) -> Iterator[Run]:
        """Yield a workload's runs, newest first; `filters` are the service's."""
        stated = without_none(
            status=status, gpu_type=gpu_type, excluded=excluded, page_size=page_size
        )
        return self._transport.items(
            path_of("workloads", workload, "runs"), "runs", {**stated, **filters}
        )

    def get(self, run_id: str) -> Run:
        """Return a stored run."""
        request: Request[Run] = get(path_of("runs", run_id))
        return self._transport.send(request)

    def assessment(self, run_id: str) -> Assessment:
        """Return how a run compares with what the published regressor forecasts for it."""
        request: Request[Assessment] = get(path_of("runs", run_id, "assessment"))
        return self._transport.send(request)

    def change(
        self,
        run_id: str,
        *,
        excluded: bool | None = None,
        reason: str | None = None,
        labels: dict[str, str | None] | None = None,
    ) -> Run:
        """Exclude a run from fits (with a reason) or change its labels; None removes a label."""
        body = without_none(excluded=excluded, reason=reason, labels=labels)
        request: Request[Run] = patch(path_of("runs", run_id), body)
        return self._transport.send(request)

    def remove(self, run_id: str) -> None:
        """Remove a run."""
        self._transport.send(delete(path_of("runs", run_id)))


def _upload_params(*, dry_run: bool, skip_invalid: bool) -> dict[str, str]:
    return {
        **({"dry_run": "true"} if dry_run else {}),
        **({"on_invalid": "skip"} if skip_invalid else {}),
    }
