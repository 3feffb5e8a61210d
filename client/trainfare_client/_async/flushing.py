"""Uploads spooled runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trainfare_client.errors import ConflictError, InProgressError, InvalidRequestError
from trainfare_client.progress import ProgressBar
from trainfare_client.spool import FlushReport, Spool
from trainfare_client.uploads import chunked, runs_upload

if TYPE_CHECKING:
    from pathlib import Path

    from trainfare_client._async.transport import AsyncTransport
    from trainfare_client.documents import MeasuredRun, UploadAnswer

_ROWS_PER_REQUEST: Final = 1000


async def flush(transport: AsyncTransport, file: Path) -> FlushReport:
    """Upload what lies in the spool and take it out.

    Runs that the service refuses for their content are kept in a file of their own beside the
    spool, with the reason; they hold up no others. A flush that is cut short is repeated by the
    next one: the runs' external ids keep them from being stored twice.
    """
    spool = Spool(file)
    report = FlushReport()
    with spool.flushing():
        while (runs := spool.take(report)) is not None:
            await store(transport, runs, spool, report)
            spool.drop_taken()
    return report


async def store(
    transport: AsyncTransport, runs: list[MeasuredRun], spool: Spool, report: FlushReport
) -> None:
    """Upload runs of a spool, which stay in it; those that are refused are kept beside it too."""
    with ProgressBar("runs", total=len(runs)) as progress:
        for _, chunk in chunked(runs, _ROWS_PER_REQUEST):
            await _upload(transport, chunk, spool, report)
            progress.advance(len(chunk))


async def _upload(
    transport: AsyncTransport, runs: list[MeasuredRun], spool: Spool, report: FlushReport
) -> None:
    try:
        answer: UploadAnswer = await transport.send(runs_upload(runs))
    except InProgressError:
        # Says nothing about the runs: an attempt that nobody waited for is still storing them.
        raise
    except (InvalidRequestError, ConflictError) as error:
        if len(runs) == 1:
            spool.reject(runs[0], str(error))
            report.refused.append(str(error))
            return
        # Halves find one bad run among a thousand in twenty requests.
        middle = len(runs) // 2
        for half in (runs[:middle], runs[middle:]):
            await _upload(transport, half, spool, report)
        return
    report.add(answer)
