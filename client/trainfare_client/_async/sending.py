"""Uploads runs as they were measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfare_client.categories import with_numbers_as_text, with_warning
from trainfare_client.errors import SchemaDriftError
from trainfare_client.uploads import runs_upload

if TYPE_CHECKING:
    from trainfare_client._async.transport import AsyncTransport
    from trainfare_client.documents import MeasuredRun, UploadAnswer


async def send_measured(transport: AsyncTransport, runs: list[MeasuredRun]) -> UploadAnswer:
    """Upload runs; numbers of categories are sent again as text, and a warning names them."""
    try:
        return await transport.send(runs_upload(runs))
    except SchemaDriftError as error:
        changed, names = with_numbers_as_text(runs, error)
        if not names:
            raise
    # A refusal names a limited number of faults, so there may be more.
    return with_warning(await send_measured(transport, changed), names)
