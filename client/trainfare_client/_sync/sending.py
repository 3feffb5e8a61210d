"""Uploads runs as they were measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfare_client.categories import with_numbers_as_text, with_warning
from trainfare_client.errors import SchemaDriftError
from trainfare_client.uploads import runs_upload

if TYPE_CHECKING:
    from trainfare_client._sync.transport import Transport
    from trainfare_client.documents import MeasuredRun, UploadAnswer


def send_measured(transport: Transport, runs: list[MeasuredRun]) -> UploadAnswer:
    """Upload runs; numbers of categories are sent again as text, and a warning names them."""
    try:
        return transport.send(runs_upload(runs))
    except SchemaDriftError as error:
        changed, names = with_numbers_as_text(runs, error)
        if not names:
            raise
    # A refusal names a limited number of faults, so there may be more.
    return with_warning(send_measured(transport, changed), names)
