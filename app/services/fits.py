"""The use cases of requesting, following and cancelling fits."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Final

import models
from app.domain.access_errors import ProjectLimitError
from app.domain.availability_errors import StorageUnavailableError
from app.domain.errors import Fault, InvalidRequestError, NotEnoughRunsError, NotFoundError
from app.domain.fits import NEEDED_RUNS, Fit, FitRequest, FitState
from app.domain.identifiers import FitId, KeyId, ProjectId, Slug, WorkloadId, is_identifier
from app.domain.pages import DEFAULT_PAGE_SIZE, Page
from app.domain.spelling import nearest_field
from app.domain.wording import say_count
from app.services.context import ServiceContext
from app.services.expiry import Expire, expire_nothing
from app.services.page_tokens import identifier_of
from app.services.quotas import charge_fits
from app.services.refitting.requests import queue_fit
from app.services.workload_names import held_workload, require_workload
from app.storage.stores import Stores

_logger = logging.getLogger(__name__)
KNOWN_REGRESSORS: Final = models.REGRESSOR_NAMES
"""The regressors that a fit request may name."""
_FIRST_LOOK_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0


async def _always() -> bool:
    return True


def _unknown_regressor(index: int, name: str) -> Fault:
    nearest = nearest_field(name, KNOWN_REGRESSORS)
    known = f"Known regressors: {', '.join(KNOWN_REGRESSORS)}."
    return Fault(
        message=f"There is no regressor {name!r}.",
        remedy=f"Did you mean {nearest!r}? {known}" if nearest else known,
        field="regressors",
        value=name,
        pointer=f"/regressors/{index}",
    )


def _check_regressors(names: tuple[str, ...] | None) -> None:
    faults = [
        _unknown_regressor(index, name)
        for index, name in enumerate(names or ())
        if name not in KNOWN_REGRESSORS
    ]
    if faults:
        raise InvalidRequestError(
            f"The request has {say_count(len(faults), 'unknown regressor')}.", faults
        )


def _charge(stores: Stores, project_id: ProjectId, workload_id: WorkloadId, now: datetime) -> None:
    """Count a fit of a workload towards its project's limits unless it has an active one."""
    if stores.fits.active(workload_id) is not None:
        return
    try:
        charge_fits(stores, project_id, now)
    except ProjectLimitError:
        # It may have one by now, which the limits count.
        if stores.fits.active(workload_id) is None:
            raise


class FitService:
    """Use cases of requesting, following and cancelling fits.

    Parameters
    ----------
    context
        The process's database, settings and clock.
    expire
        Told of each fit that published a version, before its end is told.
    """

    def __init__(self, context: ServiceContext, *, expire: Expire = expire_nothing) -> None:
        self._context = context
        self._expire = expire

    def request_fit(
        self,
        project_id: ProjectId,
        slug: Slug,
        request: FitRequest,
        *,
        key_id: KeyId | None = None,
    ) -> tuple[Fit, bool]:
        """Return a new fit and True, or the workload's active fit and False; a new one is audited.

        `key_id` is the key that requests it, None where none is needed.

        Raises
        ------
        InvalidRequestError
            If a regressor is unknown.
        UnknownWorkloadError
            If there is no such workload.
        NotEnoughRunsError
            If the workload has no run that a fit could use.
        ProjectLimitError
            If the project may not request another fit now.
        """
        _check_regressors(request.regressors)
        with self._context.database.transaction() as stores:
            workload = held_workload(stores, project_id, slug)
            n_usable = stores.runs.count_for_fit(
                workload.workload_id, request.runs_since, at_most=NEEDED_RUNS
            )
            if n_usable < NEEDED_RUNS:
                raise NotEnoughRunsError(slug, found=n_usable, needed=NEEDED_RUNS)
            now = self._context.now()
            _charge(stores, project_id, workload.workload_id, now)
            fit, is_new = queue_fit(
                stores, project_id, workload.workload_id, request, now, key_id=key_id
            )
            fit = self._with_obstacle(stores, fit)
        if is_new:
            _logger.info("fit requested", extra={"fit": fit.fit_id, "workload": slug})
        return fit, is_new

    def get(self, project_id: ProjectId, fit_id: str) -> Fit:
        """Return a fit.

        Raises
        ------
        NotFoundError
            If the project has no such fit.
        """
        fit = self._find(project_id, fit_id)
        if fit is None:
            raise NotFoundError("fit", fit_id)
        return fit

    def _find(self, project_id: ProjectId, fit_id: str) -> Fit | None:
        if not is_identifier("fit", fit_id):
            return None
        with self._context.database.reading() as stores:
            fit = stores.fits.get(project_id, FitId(fit_id))
            if fit is not None and fit.published:
                self._expire(project_id, fit.workload, fit.regressor_version)
            return None if fit is None else self._with_obstacle(stores, fit)

    def _with_obstacle(self, stores: Stores, fit: Fit) -> Fit:
        """Return a queued fit with what it waits for as its step, if no fitter can start it."""
        if fit.state is not FitState.QUEUED:
            return fit
        return replace(fit, step=self._context.fitters(stores).obstacle() or fit.step)

    def list_page(
        self,
        project_id: ProjectId,
        slug: Slug,
        *,
        page_size: int = DEFAULT_PAGE_SIZE,
        page_token: str | None = None,
    ) -> Page[Fit]:
        """Return fits of a workload, newest first.

        Raises
        ------
        InvalidRequestError
            If the page token is not one of this list.
        UnknownWorkloadError
            If there is no such workload.
        """
        before = identifier_of(page_token, "fit")
        with self._context.database.reading() as stores:
            workload = require_workload(stores, project_id, slug)
            page = stores.fits.page(workload.workload_id, limit=page_size, before=before)
            return replace(page, items=[self._with_obstacle(stores, fit) for fit in page.items])

    def cancel(self, project_id: ProjectId, fit_id: str, *, key_id: KeyId | None = None) -> Fit:
        """Cancel a queued fit at once, a running one at its next step; an ended one stays. Audited.

        Raises
        ------
        NotFoundError
            If the project has no such fit.
        """
        fit = self.get(project_id, fit_id)
        with self._context.database.transaction() as stores:
            now = self._context.lease_now(stores)
            if stores.fits.request_cancel(FitId(fit_id), now):
                detail = {"workload": fit.workload}
                stores.access.record_audit(project_id, key_id, now, "fit.cancel", fit_id, detail)
        _logger.info("fit cancel requested", extra={"fit": fit_id})
        return self.get(project_id, fit_id)

    async def wait(
        self,
        project_id: ProjectId,
        fit: Fit,
        seconds: float,
        is_admitted: Callable[[], Awaitable[bool]] = _always,
    ) -> Fit:
        """Return the fit when it has ended, or its state after `seconds` or when the process ends.

        It is also returned soon after `is_admitted` says that the caller no longer may wait.
        """
        latest = fit
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                async for change in self.follow(project_id, fit, is_admitted):
                    latest = change
        return latest

    async def follow(
        self,
        project_id: ProjectId,
        fit: Fit,
        is_admitted: Callable[[], Awaitable[bool]] = _always,
    ) -> AsyncIterator[Fit]:
        """Yield the fit and each of its changes until the fit or this process ends.

        Neither a thread nor a connection is held between polls; before each of these, `is_admitted`
        says whether the caller still may follow.
        """
        yield fit
        pause_s = _FIRST_LOOK_S
        while not fit.state.is_final and not self._context.stopping.is_set():
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
            if not await is_admitted():
                return
            try:
                latest = await asyncio.to_thread(self._find, project_id, fit.fit_id)
            except StorageUnavailableError:
                continue
            if latest is None:
                return
            if latest != fit:
                fit, pause_s = latest, _FIRST_LOOK_S
                yield fit
