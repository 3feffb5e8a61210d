"""The use cases of stored runs: show, export, exclude, remove."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from app.domain.access import Principal
from app.domain.errors import (
    Fault,
    InvalidRequestError,
    NotFoundError,
)
from app.domain.identifiers import ProjectId, RunId, Slug, is_identifier
from app.domain.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Page
from app.domain.runs import Assessment, Run, RunChange, RunFilter
from app.services.context import ServiceContext
from app.services.page_tokens import identifier_of
from app.services.quotas import release_runs
from app.services.refitting.inclusions import include_runs, lock_runs
from app.services.run_exports import MemberNames, RunExport, all_pages, page_columns, upload_columns
from app.services.run_uploads import Assessor
from app.services.uploads.checking import GpuNaming
from app.services.uploads.fields import MAX_NAMES
from app.services.workload_names import require_workload
from app.storage.stores import Stores

_ALL_RUNS: Final = RunFilter()


class RunService:
    """Use cases of stored runs.

    Parameters
    ----------
    context
        The surroundings of the service.
    canonical_gpu_name
        Returns the canonical name for an unambiguous GPU alias, and every other name unchanged.
    assessor
        Judges runs by what was forecast for them.
    """

    def __init__(
        self,
        context: ServiceContext,
        canonical_gpu_name: GpuNaming,
        assessor: Assessor,
    ) -> None:
        self._context = context
        self._canonical_gpu_name = canonical_gpu_name
        self._assessor = assessor
        self._names = MemberNames()

    def get(self, project_id: ProjectId, run_id: RunId) -> Run:
        """Return a run.

        Raises
        ------
        NotFoundError
            If the project has no such run.
        """
        with self._context.database.reading() as stores:
            return _require(stores, project_id, run_id)

    def assess(self, project_id: ProjectId, run_id: RunId) -> Assessment:
        """Return the judgement of a run by what the published regressor forecasts for it.

        Raises
        ------
        NotFoundError
            If the project has no such run.
        """
        return self._assessor.assess(project_id, [self.get(project_id, run_id)])[0]

    def list_page(
        self,
        project_id: ProjectId,
        slug: Slug,
        wanted: RunFilter = _ALL_RUNS,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        page_token: str | None = None,
    ) -> Page[Run]:
        """Return a workload's runs, the newest first.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        UnknownWorkloadError
            If the project has no such workload.
        """
        before = identifier_of(page_token, "run")
        canonical = map(self._canonical_gpu_name, wanted.gpu_types)
        # As it is written too: an older catalogue may have stored that.
        wanted = replace(wanted, gpu_types={*wanted.gpu_types, *canonical})
        with self._context.database.reading() as stores:
            workload = require_workload(stores, project_id, slug)
            return stores.runs.page(workload, wanted, limit=page_size, before=before)

    def export(
        self,
        project_id: ProjectId,
        slug: Slug,
        wanted: RunFilter = _ALL_RUNS,
        *,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> RunExport:
        """Return a workload's runs with an upload's columns; all runs without a `page_size`.

        The columns of a page are those of all the workload's runs, as far as they are known, or
        those that its own need where an upload may not have so many.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        UnknownWorkloadError
            If the project has no such workload.
        """

        def read(token: str | None) -> Page[Run]:
            size = page_size or MAX_PAGE_SIZE
            return self.list_page(project_id, slug, wanted, page_size=size, page_token=token)

        # Read first: the columns include those of runs that are stored meanwhile, and no page has
        # newer runs than the first.
        first, is_page = read(page_token), page_size is not None
        with self._context.database.reading() as stores:
            workload = require_workload(stores, project_id, slug)
            find_names = self._names.recent if is_page else self._names.read
            names = find_names(stores, workload.workload_id, self._context.now())
        if is_page:
            columns = page_columns(workload, names, first.items)
            return RunExport(columns, iter([first.items]), first.next_key)
        return RunExport(upload_columns(workload, names), all_pages(first, read), None)

    def change(self, principal: Principal, run_id: RunId, change: RunChange) -> Run:
        """Exclude a run from fits or include it again, and change its labels; a change is audited.

        Raises
        ------
        NotFoundError
            If the project has no such run.
        InvalidRequestError
            If a reason is given for a run that is not excluded, or the run would have too many
            labels.
        """
        with self._context.database.transaction() as stores:
            # Labels are merged with the stored ones, which nobody else may write meanwhile.
            if change.excluded is False:
                run = _locked(stores, principal.project_id, run_id)
            else:
                run = _require(stores, principal.project_id, run_id, lock=True)
            excluded = run.excluded if change.excluded is None else change.excluded
            if change.reason is not None and not excluded:
                fault = Fault(
                    "A reason can only be given with an exclusion.",
                    'Send "excluded": true.',
                    field="reason",
                )
                raise InvalidRequestError("The run is not excluded.", [fault])
            reason = (change.reason or run.excluded_reason) if excluded else None
            kept_labels = _merged(run.labels, change.labels)
            if (excluded, reason, kept_labels) == (run.excluded, run.excluded_reason, run.labels):
                return run
            if not excluded:
                now = self._context.lease_now(stores)
                include_runs(stores, principal, [run], now, self._context.settings)
            stores.runs.update(run_id, excluded=excluded, reason=reason, labels=kept_labels)
            stores.access.record_audit(
                principal.project_id,
                principal.key_id,
                self._context.now(),
                _action(run, excluded=excluded),
                run_id,
                {"excluded": excluded, "reason": reason, "labels": kept_labels},
            )
            return _require(stores, principal.project_id, run_id)

    def delete(self, principal: Principal, run_id: RunId) -> None:
        """Remove a run.

        Raises
        ------
        NotFoundError
            If the project has no such run.
        """
        with self._context.database.transaction() as stores:
            # Counts are changed by one transaction at a time; another may have removed the run.
            run = _locked(stores, principal.project_id, run_id)
            _remove(stores, principal.project_id, run)
            stores.access.record_audit(
                principal.project_id,
                principal.key_id,
                self._context.now(),
                "run.delete",
                run_id,
                {"workload": run.workload, "external_id": run.external_id},
            )


def _merged(stored: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return a run's labels after a change; one without a text is removed, as it is no upload's."""
    merged = {name: value for name, value in {**stored, **changes}.items() if value}
    if len(merged) > max(MAX_NAMES, len(stored)):
        fault = Fault(
            f"The run would have {len(merged)} labels; at most {MAX_NAMES}.",
            "Remove some of its labels: send null for them.",
            field="labels",
            pointer="/labels",
        )
        raise InvalidRequestError("The run would have too many labels.", [fault])
    return merged


def _remove(stores: Stores, project_id: ProjectId, run: Run) -> None:
    workload = require_workload(stores, project_id, run.workload)
    before = stores.run_counts.known([workload.workload_id])
    stores.runs.delete(run.run_id)
    stores.run_counts.change(before, {workload.workload_id: {run.status: -1}})
    release_runs(stores, project_id, 1)


def _action(run: Run, *, excluded: bool) -> str:
    if excluded == run.excluded:
        return "run.change"
    return "run.exclude" if excluded else "run.include"


def _locked(stores: Stores, project_id: ProjectId, run_id: RunId) -> Run:
    """Return a run, locked against changes until the transaction ends, after its workload."""
    runs = lock_runs(stores, project_id, [run_id]) if is_identifier("run", run_id) else []
    if not runs:
        raise NotFoundError("run", run_id)
    return runs[0]


def _require(stores: Stores, project_id: ProjectId, run_id: RunId, *, lock: bool = False) -> Run:
    is_known = is_identifier("run", run_id)
    run = stores.runs.get(project_id, run_id, lock=lock) if is_known else None
    if run is None:
        raise NotFoundError("run", run_id)
    return run
