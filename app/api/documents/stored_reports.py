"""Writes stored CI reports as JSON documents."""

from typing import Any

from app.domain.ci import StoredReport
from app.domain.instants import instant_text


def stored_document(report: StoredReport) -> dict[str, Any]:
    """Return the document of a stored report in its current state."""
    acknowledgement = report.acknowledgement
    acknowledged = None
    if acknowledgement is not None:
        acknowledged = {
            "author": acknowledgement.author,
            "reason": acknowledgement.reason,
            "at": instant_text(acknowledgement.at),
        }
    promoted = None if report.promoted_at is None else instant_text(report.promoted_at)
    return {**report.document, "acknowledged": acknowledged, "promoted_at": promoted}
