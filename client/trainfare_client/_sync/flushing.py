"""Uploads spooled runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainfare_client._sync.sending import send_measured
from trainfare_client.errors import ConflictError, InProgressError, InvalidRequestError
from trainfare_client.progress import ProgressBar
from trainfare_client.spool import FlushReport, Spool
from trainfare_client.uploads import chunked

if TYPE_CHECKING:
    from pathlib import Path

    from trainfare_client._sync.transport import Transport
    from trainfare_client.documents import MeasuredRun

_ROWS_PER_REQUEST: Final = 1000


def flush(transport: Transport, file: Path) -> FlushReport:
    """Upload the runs in the spool and remove them from it.

    Runs that the service refuses for their content are kept in a separate file beside the spool,
    with the reason; they do not block others. An interrupted flush is repeated by the next one: the
    runs' external ids keep them from being stored twice.
    """
    spool = Spool(file)
    report = FlushReport()
    with spool.flushing():
        while (runs := spool.take(report)) is not None:
            store(transport, runs, spool, report)
            spool.drop_taken()
    return report


def store(transport: Transport, runs: list[MeasuredRun], spool: Spool, report: FlushReport) -> None:
    """Upload runs of a spool, which stay in it; refused ones are also kept beside it."""
    with ProgressBar("runs", total=len(runs)) as progress:
        for _, chunk in chunked(runs, _ROWS_PER_REQUEST):
            _upload(transport, chunk, spool, report)
            progress.advance(len(chunk))


def _upload(
    transport: Transport, runs: list[MeasuredRun], spool: Spool, report: FlushReport
) -> None:
    try:
        answer = send_measured(transport, runs)
    except InProgressError:
        # Says nothing about the runs: an abandoned attempt is still storing them.
        raise
    except (InvalidRequestError, ConflictError) as error:
        if len(runs) == 1:
            spool.reject(runs[0], str(error))
            report.refused.append(str(error))
            return
        # Halving finds one bad run among a thousand in twenty requests.
        middle = len(runs) // 2
        for half in (runs[:middle], runs[middle:]):
            _upload(transport, half, spool, report)
        return
    report.add(answer)
