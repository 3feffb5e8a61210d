"""The use cases of CI reports: judge new runs at once, acknowledge, promote."""

import io
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

import orjson

from app.decisions.gate import combine, exit_code
from app.domain.access import Principal
from app.domain.ci import (
    Acknowledgement,
    Baseline,
    CiReport,
    CiReportRequest,
    StoredReport,
)
from app.domain.errors import (
    Fault,
    InvalidRequestError,
    NotFoundError,
    ReportWithoutRunsError,
)
from app.domain.idempotency import IdempotencyTicket, Replay
from app.domain.identifiers import (
    CiReportId,
    KeyId,
    ProjectId,
    RunId,
    Slug,
    is_identifier,
    new_identifier,
    parse_slug,
)
from app.domain.pages import DEFAULT_PAGE_SIZE, Page
from app.domain.runs import Run
from app.services.context import ServiceContext
from app.services.judging.history import History, read_history
from app.services.judging.reports import cost_change, drifting_workloads, judged_runs, with_costs
from app.services.page_tokens import identifier_of
from app.services.prices import PriceService
from app.services.refitting.inclusions import include_runs, lock_runs
from app.services.run_uploads import UploadService
from app.services.serving import RegressorCache
from app.services.uploads.terms import UploadFormat, UploadOptions, UploadResult, keep
from app.storage.stores import Stores

Document = Mapping[str, Any]
Render = Callable[[CiReport], Document]
ToAnswer = Callable[[Document], Replay]

_MONTH: Final = timedelta(days=30)
_UNPROMOTED: Final = "not promoted yet"


class CiReportService:
    """Use cases of CI reports.

    Parameters
    ----------
    context
        The surroundings of the service.
    uploads
        Stores the runs of a report.
    regressors
        The regressors in memory.
    prices
        The source of current prices.
    """

    def __init__(
        self,
        context: ServiceContext,
        uploads: UploadService,
        regressors: RegressorCache,
        prices: PriceService,
    ) -> None:
        self._context = context
        self._uploads = uploads
        self._regressors = regressors
        self._prices = prices

    def report(
        self,
        project_id: ProjectId,
        request: CiReportRequest,
        render: Render,
        ticket: IdempotencyTicket | None = None,
        answer: ToAnswer | None = None,
        *,
        key_id: KeyId | None = None,
    ) -> Document:
        """Store the runs of a report, judge them and store the report, all or nothing.

        Parameters
        ----------
        project_id
            Whose runs they are.
        request
            The runs and their origin.
        render
            Makes the document that is returned and stored.
        ticket, answer
            The idempotency key under which the answer is kept for a retry, in the transaction that
            stores the runs, and the answer made of the document.
        key_id
            The key that sent the report, None where none is needed.

        Raises
        ------
        DomainError
            As for an upload of the same runs: bad rows, unknown fields, conflicts.
        """
        book = self._prices.book(project_id)
        histories = {
            slug: read_history(self._context, self._regressors, book, project_id, slug)
            for slug in _slugs(request)
        }
        if request.is_on_base:
            for history in histories.values():
                history.prepare_drift()
        documents: list[Document] = []

        def finish(stores: Stores, result: UploadResult) -> None:
            report = self._judge(stores, project_id, request, result, histories)
            document = render(report)
            stores.ci.add(project_id, StoredReport(report.report_id, report.created_at, document))
            if ticket is not None and answer is not None:
                keep(stores, ticket, answer(document))
            documents.append(document)

        body = io.BytesIO(_body(request))
        options = UploadOptions(offers_skipping=False, exclusion=_exclusion(request))
        self._uploads.upload(
            project_id, body, UploadFormat.JSON, options, key_id=key_id, finish=finish
        )
        return documents[0]

    def _judge(
        self,
        stores: Stores,
        project_id: ProjectId,
        request: CiReportRequest,
        result: UploadResult,
        histories: Mapping[Slug, History],
    ) -> CiReport:
        now = self._context.now()
        runs = _stored_runs(stores, project_id, result)
        judged = with_costs(judged_runs(runs, histories, request.gate), histories)
        slugs = sorted({run.workload for run in runs})
        drifts = drifting_workloads(stores, slugs, histories) if request.is_on_base else {}
        workloads = stores.workloads.find_many(project_id, slugs)
        runs_last_month = {
            slug: stores.runs.count_usable(workload.workload_id, now - _MONTH)
            for slug, workload in workloads.items()
        }
        active = [stores.fits.active(workload.workload_id) for workload in workloads.values()]
        verdict = combine([run.verdict for run in judged], has_drift=bool(drifts))
        return CiReport(
            report_id=CiReportId(new_identifier("ci", now=now)),
            created_at=now,
            request=request,
            verdict=verdict,
            exit_code=exit_code(verdict, request.gate),
            runs=tuple(judged),
            duplicates=tuple(row.accepted.is_duplicate for row in result.runs or ()),
            drifts=drifts,
            cost_change=cost_change(judged, request.runs_per_month, runs_last_month),
            fits=tuple(fit for fit in active if fit is not None),
        )

    def get(self, project_id: ProjectId, report_id: str) -> StoredReport:
        """Return a report.

        Raises
        ------
        NotFoundError
            If the project has no such report.
        """
        with self._context.database.reading() as stores:
            return _require(stores, project_id, report_id)

    def list_page(
        self,
        project_id: ProjectId,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        page_token: str | None = None,
    ) -> Page[StoredReport]:
        """Return reports, the newest first.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        """
        before = identifier_of(page_token, "ci")
        with self._context.database.reading() as stores:
            return stores.ci.page(project_id, limit=page_size, before=before)

    def promote(self, caller: Principal, report_id: str) -> StoredReport:
        """Include the runs of a report in fits once its branch is merged; audited.

        Raises
        ------
        NotFoundError
            If the project has no such report, or no run of it is left.
        """
        with self._context.database.transaction() as stores:
            report, runs = _lock(stores, caller.project_id, report_id)
            promoted = self._promoted(stores, caller, report, runs)
            if promoted != report:
                self._audit(stores, caller, "ci.promote", promoted)
        return promoted

    def acknowledge(
        self, caller: Principal, report_id: str, *, author: str, reason: str
    ) -> StoredReport:
        """Accept a report's durations as the new normal of its workloads; audited.

        Its runs are promoted, drift is counted anew from them, and until the next fit later runs
        are compared with forecasts adjusted by the change that these runs show.

        Raises
        ------
        NotFoundError
            If the project has no such report, or no run of it is left.
        """
        with self._context.database.transaction() as stores:
            report, runs = _lock(stores, caller.project_id, report_id)
            # By the clock that dates runs, so that those of the report came before.
            now = self._context.lease_now(stores)
            arrivals = _arrivals_of_new_normal(report, runs)
            workloads = stores.workloads.find_many(caller.project_id, set(arrivals))
            for slug, workload in workloads.items():
                workload_id = workload.workload_id
                for instant in arrivals[slug]:
                    stores.ci.add_baseline(
                        Baseline(workload_id, instant, author, reason, report.report_id, now)
                    )
            report = self._promoted(stores, caller, report, runs)
            acknowledgement = Acknowledgement(author, reason, now)
            stores.ci.note_acknowledgement(report.report_id, acknowledgement)
            report = replace(report, acknowledgement=acknowledgement)
            self._audit(stores, caller, "ci.acknowledge", report)
        return report

    def _promoted(
        self, stores: Stores, caller: Principal, report: StoredReport, runs: Sequence[Run]
    ) -> StoredReport:
        # Runs excluded for another reason stay excluded.
        runs = [run for run in runs if (run.excluded_reason or "").endswith(_UNPROMOTED)]
        now = self._context.lease_now(stores)
        include_runs(stores, caller, runs, now, self._context.settings)
        stores.ci.note_promotion(report.report_id, now)
        return replace(report, promoted_at=report.promoted_at or now)

    def _audit(self, stores: Stores, caller: Principal, action: str, report: StoredReport) -> None:
        acknowledgement = report.acknowledgement
        detail = (
            {}
            if acknowledgement is None
            else {"author": acknowledgement.author, "reason": acknowledgement.reason}
        )
        now = self._context.now()
        stores.access.record_audit(
            caller.project_id, caller.key_id, now, action, report.report_id, detail
        )


def _require(
    stores: Stores, project_id: ProjectId, report_id: str, *, lock: bool = False
) -> StoredReport:
    report = None
    if is_identifier("ci", report_id):
        report = stores.ci.get(project_id, CiReportId(report_id), lock=lock)
    if report is None:
        raise NotFoundError("CI report", report_id)
    return report


def _lock(
    stores: Stores, project_id: ProjectId, report_id: str
) -> tuple[StoredReport, Sequence[Run]]:
    """Return a report with those of its runs that exist, locked until the transaction ends.

    Workloads are locked before reports, as in the removal of a workload.
    """
    report = _require(stores, project_id, report_id)
    runs = lock_runs(stores, project_id, _run_ids(report))
    report = _require(stores, project_id, report_id, lock=True)
    if not runs:
        raise ReportWithoutRunsError(report_id)
    return report, runs


def _run_ids(report: StoredReport) -> list[RunId]:
    return [RunId(run["run_id"]) for run in report.document["runs"]]


def _arrivals_of_new_normal(
    report: StoredReport, runs: Sequence[Run]
) -> dict[Slug, list[datetime]]:
    """Return when the runs that a report brought of each workload arrived, in rising order.

    Runs that were stored before it are of the old normal, unless it brought no others.
    """
    duplicates = {run["run_id"] for run in report.document["runs"] if run["duplicate"]}
    stored, brought = defaultdict[Slug, set[datetime]](set), defaultdict[Slug, set[datetime]](set)
    for run in runs:
        of_run = stored if run.run_id in duplicates else brought
        of_run[run.workload].add(run.created_at)
    return {slug: sorted(instants) for slug, instants in (stored | brought).items()}


def _slugs(request: CiReportRequest) -> set[Slug]:
    names = [
        entry.get("workload", request.workload)
        for entry in request.documents
        if isinstance(entry, Mapping)
    ]
    slugs = {parse_slug(name) for name in names if isinstance(name, str)}
    return {slug for slug in slugs if slug is not None}


def _body(request: CiReportRequest) -> bytes:
    """Return the runs of a report as an upload.

    Raises
    ------
    InvalidRequestError
        If a run is nested more deeply than JSON can be written: further than it was read.
    """
    try:
        return orjson.dumps(_documents(request))
    except TypeError as error:
        fault = Fault(
            "A run has groups or lists within one another hundreds of levels deep.",
            "Send runs as in POST /v1/runs: plain values, and groups of them.",
            field="runs",
            pointer="/runs",
        )
        raise InvalidRequestError("The runs are nested too deeply.", [fault]) from error


def _documents(request: CiReportRequest) -> list[Any]:
    """Return the runs with the fields that the report gives for all of them."""
    labels = {
        "git_sha": request.commit,
        "git_branch": request.branch,
        "pull_request": request.pull_request,
    }
    given_labels = {name: value for name, value in labels.items() if value is not None}
    return [_document(entry, request.workload, given_labels) for entry in request.documents]


def _document(entry: Any, workload: Slug | None, labels: Mapping[str, str]) -> Any:
    if not isinstance(entry, Mapping):
        return entry
    filled = {"workload": workload, **entry} if workload is not None else dict(entry)
    own_labels = filled.get("labels")
    if labels and (own_labels is None or isinstance(own_labels, Mapping)):
        filled["labels"] = {**labels, **(own_labels or {})}
    return filled


def _exclusion(request: CiReportRequest) -> str | None:
    if request.is_on_base:
        return None
    return f"measured on branch {request.branch}, not on {request.base_branch}; {_UNPROMOTED}"


def _stored_runs(stores: Stores, project_id: ProjectId, result: UploadResult) -> list[Run]:
    ids = [row.accepted.run_id for row in result.runs or () if row.accepted.run_id is not None]
    runs = {run.run_id: run for run in stores.runs.get_many(project_id, ids)}
    return [runs[run_id] for run_id in ids]
