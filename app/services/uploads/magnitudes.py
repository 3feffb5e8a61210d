"""Finds runs whose durations are orders of magnitude from their forecasts."""

from collections.abc import Mapping
from typing import Final

from app.domain.runs import Assessment, Verdict
from app.services.uploads.reading import CheckedUpload
from app.services.uploads.terms import Oddity

_FAR: Final = 100.0
_CODE: Final = "duration_far_off"
_MESSAGE: Final = (
    f"A run took over {_FAR:.0f} times as long as its configuration was forecast to, or less than"
    f" 1/{_FAR:.0f} of it."
)
_REMEDY: Final = (
    "Check the units: seconds, and the workload's dataset_unit. Remove a wrong run"
    " (DELETE /v1/runs/{run}), or exclude it from fits (PATCH)."
)


def note_far_durations(upload: CheckedUpload, verdicts: Mapping[int, Assessment]) -> None:
    """Count the rows of an upload that may be in another unit.

    Where a forecast is uncertain, a run far from its median may lie within its interval: it is as
    expected.
    """
    far = [row for row, assessment in verdicts.items() if _is_far(assessment)]
    if far:
        upload.oddities.note(Oddity(_CODE, _MESSAGE, _REMEDY), sorted(far))


def _is_far(assessment: Assessment) -> bool:
    ratio = assessment.ratio
    is_outside = assessment.verdict in {Verdict.SLOWER, Verdict.FASTER}
    return is_outside and ratio is not None and not 1.0 / _FAR <= ratio <= _FAR
