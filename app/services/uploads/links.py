"""Finds rows that name a forecast which is not recorded."""

from collections import defaultdict
from datetime import datetime
from typing import Final

from app.domain.identifiers import ProjectId
from app.services.ledger import Unwritten
from app.services.uploads.reading import CheckedUpload
from app.services.uploads.terms import Oddity
from app.storage.stores import Stores

_CODE: Final = "unknown_forecast"
_MESSAGE: Final = "No recorded forecast of the run's workload has this forecast_id."
_REMEDY: Final = (
    "Send the forecast_id as POST /v1/forecasts answered it: the run counts for the accuracy of"
    ' that forecast. What is asked by batch, what-if or with "record": false is not kept, and old'
    " forecasts may have been removed."
)


def note_unknown_forecasts(
    stores: Stores, project_id: ProjectId, upload: CheckedUpload, now: datetime
) -> None:
    """Count the rows of an upload that name no forecast of their workload.

    A forecast of the last seconds may not be written yet, so rows that name one are not counted.
    """
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for chunk in upload.chunks:
        texts = chunk.texts
        if "forecast_id" not in texts:
            continue
        references = zip(chunk.rows.tolist(), texts["workload"], texts["forecast_id"], strict=True)
        for row, slug, forecast_id in references:
            if slug is not None and forecast_id is not None:
                rows[slug, forecast_id].append(row)
    workload_of = stores.forecasts.workloads_of(project_id, sorted({key for _, key in rows}))
    unwritten = Unwritten(now)
    unmatched = [
        row
        for (slug, key), rows_of_forecast in rows.items()
        if (workload_of[key] != slug if key in workload_of else not unwritten.may_hold(key))
        for row in rows_of_forecast
    ]
    if unmatched:
        upload.oddities.note(Oddity(_CODE, _MESSAGE, _REMEDY), sorted(unmatched))
