"""Includes runs in fits that were excluded from them: one by one, or with a CI report."""

from collections.abc import Sequence
from datetime import datetime

from app.domain.access import Principal
from app.domain.identifiers import ProjectId, RunId
from app.domain.runs import Run
from app.services.refitting.refits import request_refits
from app.settings import Settings
from app.storage.stores import Stores


def lock_runs(stores: Stores, project_id: ProjectId, run_ids: Sequence[RunId]) -> list[Run]:
    """Return those of the runs that exist, locked against changes until the transaction ends.

    Their workloads are locked first: runs become usable by fits one change at a time, as with
    uploads, so that a fit has seen everything up to some instant.
    """
    slugs = {run.workload for run in stores.runs.get_many(project_id, run_ids)}
    stores.workloads.lock(project_id, *slugs)
    return stores.runs.get_many(project_id, run_ids, lock=True)


def include_runs(
    stores: Stores, caller: Principal, runs: Sequence[Run], now: datetime, settings: Settings
) -> None:
    """Let fits use those of the runs that are excluded; refit policies count them as new.

    The runs come from `lock_runs`, and `now` is an instant after that call.
    """
    excluded = [run for run in runs if run.excluded]
    if not excluded:
        return
    stores.runs.include([run.run_id for run in excluded], now)
    slugs = {run.workload for run in excluded}
    workloads = stores.workloads.find_many(caller.project_id, slugs).values()
    request_refits(stores, caller.project_id, workloads, now, settings, caller.key_id)
