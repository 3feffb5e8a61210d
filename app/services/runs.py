"""The use cases of runs: upload, look at, exclude, remove."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import IO, Protocol

from app.domain.access import Principal
from app.domain.errors import (
    Fault,
    InvalidRequestError,
    InvalidRowsError,
    NotFoundError,
    UnknownFieldError,
    UnknownWorkloadError,
)
from app.domain.idempotency import IdempotencyTicket, Replay
from app.domain.identifiers import ProjectId, RunId, Slug, is_identifier
from app.domain.pages import DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE, Page
from app.domain.runs import Assessment, Run, RunChange, RunFilter, Verdict
from app.domain.workloads import Workload
from app.services.context import ServiceContext
from app.services.quotas import charge_upload, release_runs
from app.services.refits import request_refits
from app.services.run_exports import RunExport, all_pages, upload_columns
from app.services.uploads.checking import GpuNaming
from app.services.uploads.content import ContentWriter
from app.services.uploads.provisional import provisional_runs
from app.services.uploads.reading import CheckedUpload, UploadFormat, read_upload
from app.services.uploads.rules import Oddity
from app.services.uploads.storing import (
    MAX_LISTED_ROWS,
    AcceptedRow,
    Registered,
    UploadOptions,
    UploadRegistrar,
    settle_drift,
)
from app.storage.stores import Stores

_NO_OPTIONS = UploadOptions()
_ALL_RUNS = RunFilter()
_NOT_FORECAST = Assessment(Verdict.UNKNOWN, reason="The workload has no published regressor.")


class Assessor(Protocol):
    """Judges runs against what the published regressor forecast for them."""

    def assess(self, project_id: ProjectId, runs: Sequence[Run]) -> list[Assessment]:
        """Return one assessment for each run, in order."""
        ...


@dataclass(frozen=True, slots=True)
class UploadedRun:
    """An accepted row of an upload with its judgement."""

    accepted: AcceptedRow
    assessment: Assessment


@dataclass(frozen=True, slots=True)
class UploadResult:
    """What became of an upload; `runs` is None where the rows are too many to list."""

    created: int
    duplicates: int
    runs: tuple[UploadedRun, ...] | None
    invalid: tuple[Fault, ...]
    invalid_count: int
    oddities: tuple[Oddity, ...]
    dry_run: bool


Finish = Callable[[Stores, UploadResult], None]
"""What else belongs into the transaction that stores the runs."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """Keeps the answer to an upload for its retry: under which key, in which words.

    It is stored in the transaction that stores the runs, so that a crash leaves both or none.
    """

    ticket: IdempotencyTicket
    render: Callable[[UploadResult], Replay]

    def __call__(self, stores: Stores, result: UploadResult) -> None:
        """Store the answer."""
        keep(stores, self.ticket, self.render(result))


def keep(stores: Stores, ticket: IdempotencyTicket, answer: Replay) -> None:
    """Store the first answer to a request."""
    stores.idempotency.finish(ticket, answer.status, answer.headers, answer.body)


class RunService:
    """Use cases of runs.

    Parameters
    ----------
    context
        The surroundings of the service.
    canonical_gpu_name
        Gives an unambiguous alias of a GPU its canonical name and every other name unchanged.
    assessor
        Judges runs against what was forecast for them.
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

    def upload(
        self,
        project_id: ProjectId,
        body: IO[bytes],
        upload_format: UploadFormat,
        options: UploadOptions = _NO_OPTIONS,
        *,
        finish: Finish | None = None,
    ) -> UploadResult:
        """Store the runs of an upload, all of them or none.

        Parameters
        ----------
        project_id
            Whose runs they are.
        body
            What was sent, decompressed.
        upload_format
            How the runs are written down.
        options
            Whether to check only, and whether to leave bad rows out.
        finish
            Called in the transaction that stores the runs, before it ends; not for a dry run.

        Raises
        ------
        InvalidRowsError
            If rows are bad and not to be left out.
        UnknownFieldError
            If a field has a name that no field has.
        InvalidRequestError
            If the body as a whole cannot be read.
        SchemaDriftError, RunConflictError
            If rows contradict what is stored and are not to be left out.
        """
        upload = read_upload(body, upload_format, self._canonical_gpu_name)
        if not options.skip_invalid:
            _refuse_bad_rows(upload)
        # Judged before: whoever judges reads the database on a connection of its own.
        verdicts = self._judge(project_id, upload, options)
        if options.dry_run:
            with self._context.database.reading() as stores:
                registered = self._register(stores, project_id, upload, options)
                return _result(upload, registered, options, verdicts)
        with self._context.database.transaction() as stores:
            registered = self._register(stores, project_id, upload, options)
            result = _result(upload, registered, options, verdicts)
            if finish is not None:
                finish(stores, result)
        return result

    def _judge(
        self, project_id: ProjectId, upload: CheckedUpload, options: UploadOptions
    ) -> dict[int, Assessment]:
        """Return the judgement of each row of an upload that is small enough to list its rows."""
        if upload.total_rows > MAX_LISTED_ROWS:
            return {}
        slugs = {Slug(slug) for chunk in upload.chunks for slug in chunk.texts["workload"] if slug}
        with self._context.database.reading() as stores:
            workloads = stores.workloads.find_many(project_id, slugs)
        types = upload.uses.resolve(workloads)
        settle_drift(upload, types, skip_invalid=options.skip_invalid)
        writer, now = ContentWriter(types), self._context.now()
        runs = {
            row: run
            for chunk in upload.chunks
            for row, run in zip(
                chunk.rows.tolist(),
                provisional_runs(chunk, writer.write(chunk), now),
                strict=True,
            )
        }
        forecast = {slug for slug, found in workloads.items() if found.published_version}
        judged = {row: run for row, run in runs.items() if run.workload in forecast}
        verdicts = self._assessor.assess(project_id, list(judged.values()))
        return dict.fromkeys(runs, _NOT_FORECAST) | dict(zip(judged, verdicts, strict=True))

    def _register(
        self, stores: Stores, project_id: ProjectId, upload: CheckedUpload, options: UploadOptions
    ) -> Registered:
        now = self._context.now()
        registrar = UploadRegistrar(
            stores, project_id, upload, options, canonical_gpu_name=self._canonical_gpu_name
        )
        registered = registrar.register(now)
        if not options.dry_run:
            charge_upload(stores, project_id, registered)
            changed = [registered.workloads[slug] for slug in registered.created]
            request_refits(stores, project_id, changed, now, self._context.settings)
        return registered

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
        """Return the judgement of a run against what the published regressor forecasts for it.

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
        before = _to_key(page_token)
        if wanted.gpu_type is not None:
            wanted = replace(wanted, gpu_type=self._canonical_gpu_name(wanted.gpu_type))
        with self._context.database.reading() as stores:
            workload = _require_workload(stores, project_id, slug)
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
        """Return a workload's runs with the columns of an upload; all without a `page_size`.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        UnknownWorkloadError
            If the project has no such workload.
        """
        with self._context.database.reading() as stores:
            columns = upload_columns(stores, _require_workload(stores, project_id, slug))

        def read(token: str | None) -> Page[Run]:
            size = page_size or MAX_PAGE_SIZE
            return self.list_page(project_id, slug, wanted, page_size=size, page_token=token)

        first = read(page_token)
        if page_size is not None:
            return RunExport(columns, iter([first.items]), first.next_key)
        return RunExport(columns, all_pages(first, read), None)

    def change(self, principal: Principal, run_id: RunId, change: RunChange) -> Run:
        """Keep a run out of fits or take it back, and change its labels.

        Raises
        ------
        NotFoundError
            If the project has no such run.
        InvalidRequestError
            If a reason is given for a run that is not excluded.
        """
        with self._context.database.transaction() as stores:
            run = _require(stores, principal.project_id, run_id)
            excluded = run.excluded if change.excluded is None else change.excluded
            if change.reason is not None and not excluded:
                fault = Fault(
                    "A reason needs an exclusion.", 'Send "excluded": true.', field="reason"
                )
                raise InvalidRequestError("The run is not excluded.", [fault])
            reason = (change.reason or run.excluded_reason) if excluded else None
            labels = {**run.labels, **change.labels}
            kept = {name: value for name, value in labels.items() if value is not None}
            stores.runs.update(run_id, excluded=excluded, reason=reason, labels=kept)
            stores.access.record_audit(
                principal.project_id,
                principal.key_id,
                self._context.now(),
                _action(run, excluded=excluded),
                run_id,
                {"excluded": excluded, "reason": reason, "labels": kept},
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
            run = _require(stores, principal.project_id, run_id)
            stores.runs.delete(run_id)
            release_runs(stores, principal.project_id, 1)
            stores.access.record_audit(
                principal.project_id,
                principal.key_id,
                self._context.now(),
                "run.delete",
                run_id,
                {"workload": run.workload, "external_id": run.external_id},
            )


def _action(run: Run, *, excluded: bool) -> str:
    if excluded == run.excluded:
        return "run.change"
    return "run.exclude" if excluded else "run.include"


def _to_key(page_token: str | None) -> str | None:
    if page_token is None or is_identifier("run", page_token):
        return page_token
    fault = Fault(
        "The page token is not one of this list.",
        "Send the next_page_token of the previous page, or none for the first.",
        field="page_token",
        value=page_token,
    )
    raise InvalidRequestError("The page token is invalid.", [fault])


def _require(stores: Stores, project_id: ProjectId, run_id: RunId) -> Run:
    run = stores.runs.get(project_id, run_id) if is_identifier("run", run_id) else None
    if run is None:
        raise NotFoundError("run", run_id)
    return run


def _require_workload(stores: Stores, project_id: ProjectId, slug: Slug) -> Workload:
    workload = stores.workloads.get(project_id, slug)
    if workload is None:
        raise UnknownWorkloadError(slug)
    return workload


def _refuse_bad_rows(upload: CheckedUpload) -> None:
    faults = upload.faults
    if faults.unknown_fields:
        raise UnknownFieldError(faults.unknown_fields)
    if faults:
        raise InvalidRowsError(
            faults.named, bad_rows=len(faults.bad_rows), total_rows=upload.total_rows
        )


def _result(
    upload: CheckedUpload,
    registered: Registered,
    options: UploadOptions,
    verdicts: Mapping[int, Assessment],
) -> UploadResult:
    is_listed = upload.total_rows <= MAX_LISTED_ROWS
    listed = tuple(UploadedRun(row, verdicts[row.row]) for row in registered.rows)
    return UploadResult(
        created=registered.created.total(),
        duplicates=registered.duplicates,
        runs=listed if is_listed else None,
        invalid=tuple(upload.faults.named),
        invalid_count=len(upload.faults.bad_rows),
        oddities=tuple(upload.oddities.found),
        dry_run=options.dry_run,
    )
