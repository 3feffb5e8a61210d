"""The use cases of the fitter: claim a fit, prepare it, publish the result."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

from app.domain.availability_errors import StorageUnavailableError
from app.domain.errors import NotFoundError, RegressorUnavailableError
from app.domain.fits import ClaimedFit, FitProblem, FitState, PublishMode
from app.domain.identifiers import ProjectId, Slug
from app.domain.workloads import Pooling
from app.pricing.resolution import PriceBook, PricingFacts
from app.services.computing.task import Contest, FitOutcome, FitTask, Incumbent, Pool
from app.services.context import ServiceContext
from app.services.publications import publish_version
from app.services.refitting.refits import request_refits
from app.services.tables.frames import evidence, hardware_descriptions, run_table
from app.services.tables.implied_gpus import hardware_of, known_gpus, with_implied_gpus
from app.services.tables.machine_sizes import are_sized, with_sizes, with_sizes_of_runs
from app.storage.stores import Stores
from models import RunTable, WorkloadSummary, factory_summaries

_logger = logging.getLogger(__name__)
_FORGET_FITTERS_AFTER: Final = timedelta(days=1)
_MAX_CONTRIBUTORS: Final = 100
"""Other workloads that a prior is learned from; more would hardly change it."""

_BEGINNING: Final = datetime.fromtimestamp(0, UTC)


def _fields(claim: ClaimedFit, **more: object) -> dict[str, object]:
    return {"fit": claim.fit.fit_id, "workload": claim.fit.workload, **more}


def _percent(mape: float | None) -> str:
    return "unknown" if mape is None else f"{mape:.1%}"


def _refusal(mode: PublishMode, contest: Contest | None, published: int | None) -> str | None:
    """Return why a new version is not published, None if it is."""
    if mode is PublishMode.NEVER:
        return "as asked"
    if mode is PublishMode.AUTO or published is None:
        return None
    if contest is None or contest.incumbent_version != published:
        return f"version {published} was published meanwhile"
    if contest.is_better:
        return None
    return (
        f"error {_percent(contest.challenger_mape)} against {_percent(contest.incumbent_mape)}"
        f" of version {published}"
    )


def _pool(stores: Stores, claim: ClaimedFit) -> Pool:
    """Return what other workloads contribute: never the workload itself or another project's."""
    mode = stores.workloads.pooling_of(claim.workload_id)
    if mode is not Pooling.PROJECT:
        return Pool(mode)
    summaries = []
    for slug, document in stores.summaries.of_others(claim.workload_id, limit=_MAX_CONTRIBUTORS):
        try:
            summaries.append(WorkloadSummary.from_document({**document, "workload": slug}))
        except (KeyError, TypeError, ValueError):
            # Written by another version of the library; the contributor's next fit replaces it.
            _logger.warning("summary unusable", extra=_fields(claim, contributor=slug))
    return Pool(mode, tuple(summaries))


def _gpu_types(runs: RunTable, pool: Pool) -> Iterator[str | None]:
    """Yield the GPU types of the runs and of the other workloads."""
    yield from runs.features.categorical.get("gpu_type", ())
    if pool.mode is not Pooling.OFF:
        for summary in (*pool.summaries, *factory_summaries()):
            for category_levels in summary.levels:
                if category_levels.category == "gpu_type":
                    yield from category_levels.levels


class FittingService:
    """Use cases of the fitter, all of them fenced by the claim's token."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def claim(self, owner: str) -> ClaimedFit | None:
        """Return the next fit to compute, under a lease of `owner`, None if none waits."""
        database, settings = self._context.database, self._context.settings
        with database.reading() as stores:
            if not stores.leases.has_claimable(self._context.lease_now(stores)):
                return None
        with database.transaction() as stores:
            now = self._context.lease_now(stores)
            lost = stores.leases.end_lapsed(now, settings.fit_max_attempts)
            claim = stores.leases.claim_next(owner, lease_s=settings.lease_s, now=now)
        for project_id, slug in lost:
            self._request_refit(project_id, slug)
        if claim is not None:
            extra = _fields(claim, fitter=owner, attempt=claim.fit.attempts)
            _logger.info("fit claimed", extra=extra)
        return claim

    def prepare(self, claim: ClaimedFit) -> FitTask:
        """Read all inputs of a fit, and note up to when; no transaction stays open."""
        request = claim.fit.request
        with self._context.database.reading() as stores:
            # Read first: a run included between the two reads would count as seen, but be unread.
            included_at = stores.runs.last_included_at(claim.workload_id)
            evidence_columns = stores.runs.evidence_for_fit(claim.workload_id, request.runs_since)
            pool = _pool(stores, claim)
            prices = tuple(stores.prices.in_force(claim.project_id))
            book = PriceBook(PricingFacts(prices), self._context.now())
        columns = evidence_columns.succeeded()
        seen_until = max(columns.created_at, default=_BEGINNING)
        with self._context.database.transaction() as stores:
            stores.leases.note_seen(claim, max(seen_until, included_at or _BEGINNING))
        gpu_types = known_gpus(hardware_of(columns), book)
        runs = run_table(with_implied_gpus(columns, gpu_types, book))
        run_evidence = evidence(
            replace(
                evidence_columns, runs=with_implied_gpus(evidence_columns.runs, gpu_types, book)
            )
        )
        if are_sized(runs.features):
            runs = replace(runs, features=with_sizes(runs.features))
            run_evidence = with_sizes_of_runs(run_evidence)
        return FitTask(
            request=request,
            runs=runs,
            hardware=hardware_descriptions(_gpu_types(runs, pool)),
            evidence=run_evidence,
            incumbent=self._incumbent(claim),
            pool=pool,
        )

    def _incumbent(self, claim: ClaimedFit) -> Incumbent | None:
        if claim.fit.request.publish is not PublishMode.IF_BETTER:
            return None
        with self._context.database.reading() as stores:
            version = stores.regressors.published_version(claim.workload_id)
            if version is None:
                return None
            try:
                artifact = stores.regressors.load_artifact(claim.workload_id, version).data
            except (NotFoundError, RegressorUnavailableError):
                _logger.exception("published regressor unusable", extra=_fields(claim))
                artifact = b""
            return Incumbent(version, artifact)

    def renew(self, claim: ClaimedFit, progress: float, step: str) -> bool:
        """Renew the lease and report the progress; False if the computation is to end.

        A database that does not answer ends nothing: the token decides at the end.
        """
        try:
            with self._context.database.transaction() as stores:
                return stores.leases.renew(
                    claim,
                    lease_s=self._context.settings.lease_s,
                    progress=min(max(progress, 0.0), 1.0),
                    step=step,
                    now=self._context.lease_now(stores),
                )
        except StorageUnavailableError:
            return True

    def publish(self, claim: ClaimedFit, outcome: FitOutcome) -> bool:
        """Store the regressor, publish it if requested, and end the fit, all or nothing.

        Returns False if the lease was lost or the fit is to be cancelled. If an earlier call has
        ended the fit without noticing, since the answer of the database was lost, nothing is stored
        again.
        """
        with self._context.database.transaction() as stores:
            # Lock workloads before their fits, as in the removal of a workload.
            is_there = bool(stores.workloads.hold([claim.workload_id]))
            if is_there and stores.leases.hold(claim):
                self._store(stores, claim, outcome)
            fit = stores.fits.get(claim.project_id, claim.fit.fit_id)
        if fit is None or fit.state is not FitState.SUCCEEDED:
            return False
        if fit.attempts != claim.fit.attempts:
            return False  # another fitter has taken it over
        extra = _fields(claim, version=fit.regressor_version, step=fit.step)
        _logger.info("fit succeeded", extra=extra)
        self._request_refit(claim.project_id, claim.fit.workload)
        return True

    def _store(self, stores: Stores, claim: ClaimedFit, outcome: FitOutcome) -> None:
        """Store the regressor of a fit that is held, publish it if requested, and end the fit."""
        fit, now = claim.fit, self._context.lease_now(stores)
        version = stores.regressors.add(
            claim.workload_id,
            fit.fit_id,
            outcome.artifact,
            outcome.report,
            outcome.summary,
            now,
            format_version=outcome.format_version,
        )
        # The version it is compared with must not change until this is decided.
        published = stores.regressors.published_version(claim.workload_id, lock=True)
        refusal = _refusal(fit.request.publish, outcome.contest, published)
        if refusal is None:
            publish_version(
                stores,
                claim.project_id,
                claim.workload_id,
                fit.workload,
                version,
                now,
                fit_id=fit.fit_id,
            )
            step = f"published version {version}"
        else:
            step = f"stored version {version}, not published: {refusal}"
        stores.leases.finish(
            claim,
            candidates=outcome.report.candidates,
            version=version,
            published=refusal is None,
            step=step,
            now=now,
        )

    def fail(self, claim: ClaimedFit, problem: FitProblem) -> None:
        """End a fit that cannot succeed; the published version stays in use."""
        with self._context.database.transaction() as stores:
            stores.leases.fail(claim, problem, self._context.lease_now(stores))
        extra = _fields(claim, code=problem.code, detail=problem.detail)
        _logger.warning("fit failed", extra=extra)
        self._request_refit(claim.project_id, claim.fit.workload)

    def _request_refit(self, project_id: ProjectId, slug: Slug) -> None:
        """Request the next fit if the policy wants one for runs that came during the last one.

        In a transaction of its own: uploads lock the project's limits before they look at fits.
        """
        now, settings = self._context.now(), self._context.settings
        try:
            with self._context.database.transaction() as stores:
                workload = stores.workloads.get(project_id, slug)
                if workload is not None and stores.workloads.hold([workload.workload_id]):
                    request_refits(stores, project_id, [workload], now, settings)
        except StorageUnavailableError:
            # The last one has ended all the same; the next upload requests one.
            _logger.warning("next fit not requested", extra={"workload": slug})

    def retry(self, claim: ClaimedFit, detail: str) -> None:
        """Requeue a fit whose computation died, or end it if that was requested or too often."""
        if claim.fit.attempts >= self._context.settings.fit_max_attempts:
            self.fail(claim, FitProblem("computation_lost", detail))
            return
        outcome = self._give_back(claim, is_counted=True)
        _logger.warning(outcome, extra=_fields(claim, detail=detail))

    def leave(self, claim: ClaimedFit) -> None:
        """Cancel a fit if that was requested, otherwise requeue it as if it had never started."""
        outcome = self._give_back(claim, is_counted=False)
        _logger.info(outcome, extra=_fields(claim))

    def _give_back(self, claim: ClaimedFit, *, is_counted: bool) -> str:
        """Requeue a fit, or cancel it if that was requested; return what became of it."""
        with self._context.database.transaction() as stores:
            if stores.leases.release(claim, is_counted=is_counted):
                return "fit given back"
            # It may have been requested just now: asked in this order, no request is missed.
            if stores.leases.cancel(claim, self._context.lease_now(stores)):
                return "fit cancelled"
            return "fit taken over or removed"

    def seen(self, owner: str, started_at: datetime, waits_for: str | None = None) -> None:
        """Record that a fitter is alive and what it waits for; forget those that died long ago."""
        with self._context.database.transaction() as stores:
            now = self._context.lease_now(stores)
            stores.leases.fitter_seen(owner, started_at=started_at, now=now, waits_for=waits_for)
            stores.leases.purge_fitters(now - _FORGET_FITTERS_AFTER)

    def gone(self, owner: str) -> None:
        """Forget a fitter that stops."""
        with self._context.database.transaction() as stores:
            stores.leases.fitter_gone(owner)
