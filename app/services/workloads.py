"""The use cases of workloads: declare, show, list, remove."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from typing import Final

from app.domain.access import Principal, Scope
from app.domain.access_errors import RefitPolicyForbiddenError
from app.domain.errors import Fault, SchemaDriftError, UnitChangeError
from app.domain.fits import Fit
from app.domain.identifiers import KeyId, ProjectId, Slug, WorkloadId
from app.domain.pages import DEFAULT_PAGE_SIZE, Page
from app.domain.regressors import RegressorVersion
from app.domain.runs import RunStatus
from app.domain.workloads import (
    MeasuredFeatures,
    ParameterDeclaration,
    Workload,
    WorkloadDeclaration,
)
from app.services.context import ServiceContext
from app.services.expiry import Expire, expire_nothing
from app.services.judging.removal import remove_from_reports
from app.services.page_tokens import number_of
from app.services.quotas import charge_workload, release_runs
from app.services.refitting.refits import request_refits
from app.services.workload_names import require_workload, unknown_workload
from app.services.workload_removal import AT_ONCE, remove_some
from app.storage.stores import Stores

_MAX_DIGITS: Final = 18
_NEWEST_RUNS: Final = 100


@dataclass(frozen=True, slots=True)
class WorkloadSummary:
    """A workload and how many runs of each status it has."""

    workload: Workload
    runs: Mapping[RunStatus, int]


@dataclass(frozen=True, slots=True)
class WorkloadDetail:
    """A workload with what was measured and learned about it."""

    summary: WorkloadSummary
    features: MeasuredFeatures
    regressor: RegressorVersion | None
    last_fit: Fit | None


class WorkloadService:
    """Use cases of workloads.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    at_once
        How many runs or forecasts are removed in one transaction.
    expire
        Told of each workload that was changed or removed.
    """

    def __init__(
        self,
        context: ServiceContext,
        *,
        at_once: int = AT_ONCE,
        expire: Expire = expire_nothing,
    ) -> None:
        self._context = context
        self._at_once = at_once
        self._expire = expire

    def declare(
        self,
        project_id: ProjectId,
        slug: Slug,
        declaration: WorkloadDeclaration,
        *,
        key_id: KeyId | None = None,
        may_ask_for_fits: bool = True,
    ) -> tuple[WorkloadDetail, bool]:
        """Create a workload or replace its declaration; return whether it is new. Audited.

        A unit that is left out, and parameters that runs use, stay as they are. A fit is requested
        if the refit policy changes and makes one due.

        Raises
        ------
        RefitPolicyForbiddenError
            If the refit policy would change and the caller may not request fits.
        UnitChangeError
            If the dataset unit would change although there are runs.
        SchemaDriftError
            If a parameter would change its type although runs use it.
        """
        with self._context.database.transaction() as stores:
            is_new = bool(stores.workloads.claim(project_id, [slug], self._context.now()))
            if is_new:
                charge_workload(stores, project_id)
            # After the locks: fits that others requested meanwhile are earlier ones.
            now = self._context.now()
            workload = require_workload(stores, project_id, slug)
            policy = workload.declaration.refit_policy
            if declaration.refit_policy != policy and not may_ask_for_fits:
                raise RefitPolicyForbiddenError(Scope.FITS_WRITE)
            changed = _changed_parameters(workload, declaration)
            used = _used_parameters(stores, workload, changed)
            _check_types(declaration, used)
            merged = replace(
                declaration,
                dataset_unit=_settle_unit(stores, workload, declaration),
                parameters={**used, **declaration.parameters},
            )
            stores.workloads.replace_declaration(workload.workload_id, merged, now)
            stores.workloads.remove_parameters(workload.workload_id, changed - used.keys())
            stores.workloads.put_parameters({workload.workload_id: declaration.parameters})
            action = "workload.create" if is_new else "workload.change"
            if is_new or merged != workload.declaration:
                changes = _changes(workload.declaration, merged)
                stores.access.record_audit(project_id, key_id, now, action, slug, changes)
            declared = require_workload(stores, project_id, slug)
            if declared.declaration.refit_policy != policy:
                # The runs that wait may be enough for the new policy, and no upload need follow.
                settings = self._context.settings
                request_refits(stores, project_id, [declared], now, settings, key_id)
        self._expire(project_id, slug, None)
        # Takes all runs of the workload, meanwhile others may write.
        with self._context.database.reading() as stores:
            return _detail(stores, declared), is_new

    def get(self, project_id: ProjectId, slug: Slug) -> WorkloadDetail:
        """Return a workload with what was measured and learned about it.

        Raises
        ------
        UnknownWorkloadError
            If the project has no such workload.
        """
        with self._context.database.reading() as stores:
            return _detail(stores, require_workload(stores, project_id, slug))

    def list_page(
        self,
        project_id: ProjectId,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        page_token: str | None = None,
    ) -> Page[WorkloadSummary]:
        """Return a project's workloads, the newest first.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        """
        before = number_of(page_token, max_digits=_MAX_DIGITS)
        with self._context.database.reading() as stores:
            page = stores.workloads.page(project_id, limit=page_size, before=before)
            counts = stores.run_counts.by_status(workload.workload_id for workload in page.items)
        items = [
            WorkloadSummary(workload, counts.get(workload.workload_id, {}))
            for workload in page.items
        ]
        return Page(items, page.next_key)

    def delete(self, caller: Principal, slug: Slug) -> None:
        """Remove a workload with its runs, fits, regressors, forecasts and parts of CI reports.

        Audited. What is too much for one transaction is removed in several: a removal that is
        interrupted keeps what it has removed so far, and a further call continues.

        Raises
        ------
        UnknownWorkloadError
            If the project has no such workload.
        """
        project_id = caller.project_id
        with self._context.database.transaction() as stores:
            workload_id = require_workload(stores, project_id, slug).workload_id
            # Waits for an upload under way, so that its runs are counted too.
            stores.workloads.lock(project_id, slug)
            if not stores.workloads.hold([workload_id]):
                raise unknown_workload(stores, project_id, slug)
            n_runs = _count_runs(stores, workload_id)
            stores.access.record_audit(
                project_id,
                caller.key_id,
                self._context.now(),
                "workload.delete",
                slug,
                {"runs": n_runs},
            )
            is_large = stores.removal.is_beyond(workload_id, self._at_once)
            if not is_large:
                _remove(stores, project_id, workload_id, slug)
        while is_large:
            with self._context.database.transaction() as stores:
                is_large = bool(remove_some(stores, project_id, workload_id, slug, self._at_once))
                # Another caller may have removed it meanwhile, and made one of the same name.
                if not is_large and stores.workloads.hold([workload_id]):
                    _remove(stores, project_id, workload_id, slug)
        self._expire(project_id, slug, None)


def _count_runs(stores: Stores, workload_id: WorkloadId) -> int:
    counts = stores.run_counts.by_status([workload_id]).get(workload_id, {})
    return sum(counts.values())


def _remove(stores: Stores, project_id: ProjectId, workload_id: WorkloadId, slug: Slug) -> None:
    """Remove a locked workload and what it still has."""
    n_runs = _count_runs(stores, workload_id)
    stores.workloads.delete(workload_id)
    remove_from_reports(stores, project_id, slug)
    release_runs(stores, project_id, n_runs)


def _changes(before: WorkloadDeclaration, after: WorkloadDeclaration) -> dict[str, object]:
    """Return the fields of a declaration that have changed, with their new values."""
    fields_before = asdict(before)
    return {name: value for name, value in asdict(after).items() if value != fields_before[name]}


def _detail(stores: Stores, workload: Workload) -> WorkloadDetail:
    key = workload.workload_id
    counts = stores.run_counts.by_status([key])
    version = workload.published_version
    return WorkloadDetail(
        WorkloadSummary(workload, counts.get(key, {})),
        stores.runs.measured_features(key),
        None if version is None else stores.regressors.get(key, version),
        stores.fits.latest([key]).get(key),
    )


def _changed_parameters(workload: Workload, declaration: WorkloadDeclaration) -> set[str]:
    """Return the parameters that a declaration leaves out or gives another type."""
    return {
        name
        for name, declared in workload.declaration.parameters.items()
        if name not in declaration.parameters or declaration.parameters[name].type != declared.type
    }


def _used_parameters(
    stores: Stores, workload: Workload, names: AbstractSet[str]
) -> dict[str, ParameterDeclaration]:
    """Return those of a workload's parameters with these names that runs use."""
    key, used = workload.workload_id, set[str]()
    # The newest runs nearly always use all; to look through all may take seconds.
    for newest in (_NEWEST_RUNS, None):
        if not names <= used:
            used.update(stores.runs.names_in("parameters", key, newest=newest))
    return {name: workload.declaration.parameters[name] for name in sorted(names & used)}


def _check_types(
    declaration: WorkloadDeclaration, used: Mapping[str, ParameterDeclaration]
) -> None:
    faults = [
        Fault(
            f"Runs use {name!r} as a {used[name].type}; it cannot become a {wanted.type}.",
            "Keep its type, or use another parameter name.",
            field=name,
            value=str(wanted.type),
            pointer=f"/parameters/{name.replace('~', '~0').replace('/', '~1')}/type",
        )
        for name, wanted in declaration.parameters.items()
        if name in used and used[name].type is not wanted.type
    ]
    if faults:
        raise SchemaDriftError(faults, total=len(faults))


def _has_runs(stores: Stores, workload: Workload) -> bool:
    return bool(stores.runs.having_any([workload.workload_id]))


def _settle_unit(
    stores: Stores, workload: Workload, declaration: WorkloadDeclaration
) -> str | None:
    stored, requested = workload.declaration.dataset_unit, declaration.dataset_unit
    if stored is None or stored == requested or not _has_runs(stores, workload):
        return requested
    if requested is None:
        return stored
    raise UnitChangeError(workload.slug, stored=stored, requested=requested)
