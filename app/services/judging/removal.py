"""Removes the traces of a deleted workload from CI reports."""

from collections.abc import Mapping
from typing import Any, Final

from app.domain.identifiers import CiReportId, ProjectId, Slug
from app.storage.stores import Stores

_AT_ONCE: Final = 200
_SUMMARY: Final = "Only part of this report is kept: one of its workloads was removed."


def remove_from_reports(stores: Stores, project_id: ProjectId, slug: Slug) -> None:
    """Take a workload's runs out of its project's reports; delete reports that have no others.

    The workload is locked: no report on it is made or promoted until the transaction ends.
    """
    last = CiReportId("")
    while found := stores.ci.lock_of_workload(project_id, slug, after=last, limit=_AT_ONCE):
        last = found[-1].report_id
        rests = {report.report_id: without_workload(report.document, slug) for report in found}
        stores.ci.remove([report_id for report_id, rest in rests.items() if rest is None])
        for report_id, rest in rests.items():
            if rest is not None:
                stores.ci.rewrite(report_id, rest)


def without_workload(document: Mapping[str, Any], slug: Slug) -> dict[str, Any] | None:
    """Return a report without one of its workloads, None where it has no other.

    The verdict stays. What summarised all runs is dropped: the text and the cost change.
    """
    runs = [run for run in document["runs"] if run["workload"] != slug]
    if not runs:
        return None
    fit, slugs = document["fit"], sorted({run["workload"] for run in runs})
    return {
        **document,
        "runs": runs,
        "drift": [drift for drift in document["drift"] if drift["workload"] != slug],
        "fit": None if fit is not None and fit["workload"] == slug else fit,
        "cost_change": None,
        "summary": _SUMMARY,
        "comment_markdown": f"<!-- trainfare:ci {' '.join(slugs)} -->\n{_SUMMARY}\n",
    }
