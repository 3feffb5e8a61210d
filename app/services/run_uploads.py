"""The use case of uploading runs: check, judge, store and audit."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import IO, Final, Protocol

from app.domain.errors import InvalidRowsError, InvalidRunsError, UnknownFieldError
from app.domain.identifiers import KeyId, ProjectId, Slug
from app.domain.runs import Assessment, Run, Verdict
from app.services.context import ServiceContext
from app.services.quotas import charge_upload
from app.services.refitting.refits import request_refits
from app.services.uploads.checking import GpuNaming
from app.services.uploads.content import ContentWriter
from app.services.uploads.links import note_unknown_forecasts
from app.services.uploads.magnitudes import note_far_durations
from app.services.uploads.provisional import provisional_runs
from app.services.uploads.reading import CheckedUpload, read_upload
from app.services.uploads.spellings import (
    note_absent_names,
    note_counted_gpus,
    note_odd_parameters,
)
from app.services.uploads.storing import MAX_LISTED_ROWS, Registered, UploadRegistrar, settle_drift
from app.services.uploads.terms import (
    Finish,
    UploadedRun,
    UploadFormat,
    UploadOptions,
    UploadResult,
)
from app.storage.stores import Stores

_NO_OPTIONS: Final = UploadOptions()
_NOT_FORECAST: Final = Assessment(
    Verdict.UNKNOWN, reason="The workload has no published regressor."
)
_MAX_AUDITED_WORKLOADS: Final = 100


class Assessor(Protocol):
    """Judges runs by what the published regressor forecasts for them."""

    def assess(self, project_id: ProjectId, runs: Sequence[Run]) -> list[Assessment]:
        """Return one assessment per run, in order."""
        ...


class UploadService:
    """The use case of uploading runs.

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

    def upload(
        self,
        project_id: ProjectId,
        body: IO[bytes],
        upload_format: UploadFormat,
        options: UploadOptions = _NO_OPTIONS,
        *,
        key_id: KeyId | None = None,
        finish: Finish | None = None,
    ) -> UploadResult:
        """Store the runs of an upload, all of them or none; audited.

        Parameters
        ----------
        project_id
            Whose runs they are.
        body
            The body, decompressed.
        upload_format
            The notation of the runs.
        options
            Whether to check only, and whether to leave bad rows out.
        key_id
            The key that sent them, None where none is needed.
        finish
            Called in the transaction that stores the runs, at its end; not for a dry run.

        Raises
        ------
        InvalidRowsError
            If rows are bad and must not be left out.
        UnknownFieldError
            If a field name is unknown.
        InvalidRequestError
            If the body as a whole cannot be read.
        SchemaDriftError, RunConflictError
            If rows contradict what is stored and must not be left out.
        """
        upload = read_upload(body, upload_format, self._canonical_gpu_name)
        if not options.skip_invalid:
            _refuse_bad_rows(upload, offers_skipping=options.offers_skipping)
        # Judged before the transaction: judging reads the database on another connection.
        verdicts = self._judge(project_id, upload, options)
        note_far_durations(upload, verdicts)
        if options.dry_run:
            with self._context.database.reading() as stores:
                registered = self._register(stores, project_id, upload, options)
                return _result(upload, registered, options, verdicts)
        with self._context.database.transaction() as stores:
            registered = self._register(stores, project_id, upload, options)
            now = self._context.now()
            _audit(stores, project_id, key_id, registered, now)
            self._refit(stores, project_id, key_id, registered, now)
            result = _result(upload, registered, options, verdicts)
            if finish is not None:
                finish(stores, result)
        return result

    def _judge(
        self, project_id: ProjectId, upload: CheckedUpload, options: UploadOptions
    ) -> dict[int, Assessment]:
        """Return the verdicts of an upload that is small enough to list its rows."""
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
        forecast_slugs = {
            slug for slug, workload in workloads.items() if workload.published_version
        }
        judged = {row: run for row, run in runs.items() if run.workload in forecast_slugs}
        verdicts = self._assessor.assess(project_id, list(judged.values()))
        return dict.fromkeys(runs, _NOT_FORECAST) | dict(zip(judged, verdicts, strict=True))

    def _register(
        self, stores: Stores, project_id: ProjectId, upload: CheckedUpload, options: UploadOptions
    ) -> Registered:
        registrar = UploadRegistrar(
            stores, project_id, upload, options, canonical_gpu_name=self._canonical_gpu_name
        )
        registered = registrar.register(partial(self._context.lease_now, stores))
        note_odd_parameters(upload, registered.workloads)
        note_counted_gpus(upload)
        note_absent_names(upload)
        note_unknown_forecasts(stores, project_id, upload, self._context.now())
        if not options.dry_run:
            charge_upload(stores, project_id, registered)
        return registered

    def _refit(
        self,
        stores: Stores,
        project_id: ProjectId,
        key_id: KeyId | None,
        registered: Registered,
        now: datetime,
    ) -> None:
        changed = [registered.workloads[slug] for slug in registered.created]
        request_refits(stores, project_id, changed, now, self._context.settings, key_id)


def _audit(
    stores: Stores,
    project_id: ProjectId,
    key_id: KeyId | None,
    registered: Registered,
    now: datetime,
) -> None:
    """Audit an upload that stored something; duplicates change nothing."""
    created = registered.created
    if not created:
        return
    detail: dict[str, object] = {"runs": created.total(), "duplicates": registered.duplicates}
    if len(created) <= _MAX_AUDITED_WORKLOADS:
        detail["workloads"] = dict(sorted(created.items()))
    subject = next(iter(created)) if len(created) == 1 else f"{len(created)} workloads"
    stores.access.record_audit(project_id, key_id, now, "run.upload", subject, detail)


def _refuse_bad_rows(upload: CheckedUpload, *, offers_skipping: bool) -> None:
    faults, total_rows = upload.faults, upload.total_rows
    if faults.unknown_fields:
        raise UnknownFieldError(faults.unknown_fields)
    if faults:
        bad_rows = len(faults.bad_rows)
        has_good = offers_skipping and bad_rows < total_rows
        error_type = InvalidRunsError if has_good else InvalidRowsError
        raise error_type(faults.named, bad_rows=bad_rows, total_rows=total_rows)


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
