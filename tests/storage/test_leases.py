"""Two fitters never work on one fit, and one that lost its lease can write nothing."""

import threading
from collections.abc import Callable

import pytest

from app.domain.access import DEFAULT_PROJECT
from app.domain.fits import ClaimedFit, Fit, FitProblem, FitRequest, FitState
from app.domain.identifiers import FitId
from app.services.wiring import Services
from app.storage.leases import LeaseStore
from tests.support.clock import FakeClock
from tests.support.regressors import store_runs

LEASE_S = 30.0
MAX_ATTEMPTS = 2
PROBLEM = FitProblem("fit_failed", "no")


class Queue:
    """Asks for fits and claims them, each in its own transaction."""

    def __init__(self, services: Services, clock: FakeClock) -> None:
        self._services, self._clock = services, clock
        self.database = services.context.database

    def add(self, slug: str) -> FitId:
        workload_id = store_runs(self._services.context, slug, sizes=(1.0,))
        self._clock.advance(1)
        with self.database.transaction() as stores:
            return stores.fits.request(workload_id, FitRequest(), self._clock())[0].fit_id

    def claim(self, owner: str = "f") -> ClaimedFit | None:
        with self.database.transaction() as stores:
            stores.leases.end_lapsed(self._clock(), MAX_ATTEMPTS)
            return stores.leases.claim_next(owner, lease_s=LEASE_S, now=self._clock())

    def claimed(self) -> ClaimedFit:
        claim = self.claim()
        assert claim is not None
        return claim

    def say(self, what: Callable[[LeaseStore], bool]) -> bool:
        with self.database.transaction() as stores:
            return what(stores.leases)

    def look(self, fit_id: FitId) -> Fit:
        with self.database.reading() as stores:
            fit = stores.fits.get(DEFAULT_PROJECT, fit_id)
        assert fit is not None
        return fit


@pytest.fixture
def queue(services: Services, clock: FakeClock) -> Queue:
    return Queue(services, clock)


def test_claims_are_first_come(queue: Queue, clock: FakeClock) -> None:
    fit_ids = [queue.add("a"), queue.add("b")]

    claims = [queue.claim(), queue.claim(), queue.claim()]

    assert [claim and claim.fit.fit_id for claim in claims] == [*fit_ids, None]
    first = claims[0]
    assert first is not None
    assert first.project_id == DEFAULT_PROJECT
    assert (first.fit.state, first.fit.attempts) == (FitState.RUNNING, 1)
    assert first.fit.started_at == clock()


def test_many_fitters_never_claim_the_same_fit(queue: Queue) -> None:
    fit_ids = {queue.add(f"w{number}") for number in range(12)}
    barrier = threading.Barrier(4)
    claimed: list[FitId] = []

    def work() -> None:
        barrier.wait()
        while claim := queue.claim():
            claimed.append(claim.fit.fit_id)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(claimed) == len(fit_ids)
    assert set(claimed) == fit_ids


def test_silent_fitter_loses_its_fit_to_the_next(queue: Queue, clock: FakeClock) -> None:
    queue.add("a")
    late = queue.claimed()
    clock.advance(LEASE_S)

    taken = queue.claimed()

    assert taken.fit.fit_id == late.fit.fit_id
    assert taken.fit.attempts == 2
    assert taken.lease_token != late.lease_token


def test_renewed_lease_is_kept(queue: Queue, clock: FakeClock) -> None:
    queue.add("a")
    claim = queue.claimed()
    clock.advance(LEASE_S - 1)

    renewed = queue.say(
        lambda leases: leases.renew(
            claim, lease_s=LEASE_S, progress=0.5, step="x" * 300, now=clock()
        )
    )

    clock.advance(LEASE_S - 1)
    assert renewed
    assert queue.claim() is None
    fit = queue.look(claim.fit.fit_id)
    assert (fit.progress, fit.step) == (0.5, "x" * 200)


@pytest.mark.parametrize(
    "say",
    [
        lambda leases, claim, now: leases.renew(
            claim, lease_s=LEASE_S, progress=0.9, step="late", now=now
        ),
        lambda leases, claim, _now: leases.hold(claim),
        lambda leases, claim, now: leases.finish(
            claim, candidates=(), version=1, published=True, step="late", now=now
        ),
        lambda leases, claim, now: leases.fail(claim, PROBLEM, now),
        lambda leases, claim, now: leases.cancel(claim, now),
        lambda leases, claim, _now: leases.release(claim, is_counted=True),
    ],
    ids=["renew", "hold", "finish", "fail", "cancel", "release"],
)
def test_late_fitter_is_not_heard(
    queue: Queue, clock: FakeClock, say: Callable[[LeaseStore, ClaimedFit, object], bool]
) -> None:
    queue.add("a")
    late = queue.claimed()
    clock.advance(LEASE_S)
    taken = queue.claimed()

    is_heard = queue.say(lambda leases: say(leases, late, clock()))

    assert not is_heard
    assert queue.look(taken.fit.fit_id) == taken.fit


def test_fit_that_kills_its_fitters_ends_as_failed(queue: Queue, clock: FakeClock) -> None:
    fit_id = queue.add("a")
    for _ in range(MAX_ATTEMPTS):
        assert queue.claim() is not None
        clock.advance(LEASE_S)

    nothing = queue.claim()

    fit = queue.look(fit_id)
    assert nothing is None
    assert fit.state is FitState.FAILED
    assert fit.problem is not None
    assert fit.problem.code == "fitter_lost"


def test_cancelled_fit_of_a_dead_fitter_is_not_taken_over(queue: Queue, clock: FakeClock) -> None:
    fit_id = queue.add("a")
    queue.claimed()
    with queue.database.transaction() as stores:
        stores.fits.request_cancel(fit_id, clock())
    clock.advance(LEASE_S)

    nothing = queue.claim()

    assert nothing is None
    assert queue.look(fit_id).state is FitState.CANCELLED


@pytest.mark.parametrize(("is_counted", "attempts"), [(True, 2), (False, 1)])
def test_released_fit_is_claimed_again(queue: Queue, *, is_counted: bool, attempts: int) -> None:
    queue.add("a")
    claim = queue.claimed()

    released = queue.say(lambda leases: leases.release(claim, is_counted=is_counted))

    assert released
    waiting = queue.look(claim.fit.fit_id)
    assert (waiting.state, waiting.started_at, waiting.step) == (FitState.QUEUED, None, None)
    assert queue.claimed().fit.attempts == attempts


def test_has_claimable_sees_what_a_claim_would_find(queue: Queue, clock: FakeClock) -> None:
    seen = [queue.say(lambda leases: leases.has_claimable(clock()))]
    queue.add("a")
    seen.append(queue.say(lambda leases: leases.has_claimable(clock())))
    queue.claimed()
    seen.append(queue.say(lambda leases: leases.has_claimable(clock())))
    clock.advance(LEASE_S)
    seen.append(queue.say(lambda leases: leases.has_claimable(clock())))

    assert seen == [False, True, False, True]


def test_lease_of_a_clock_that_was_far_ahead_is_void(queue: Queue, clock: FakeClock) -> None:
    fit_ids = [queue.add("a"), queue.add("b")]
    clock.advance(7 * 86_400)
    lost = [queue.claimed(), queue.claimed()]
    clock.advance(-7 * 86_400)
    with queue.database.transaction() as stores:
        stores.fits.request_cancel(fit_ids[1], clock())

    taken = queue.claimed()

    assert (taken.fit.fit_id, taken.fit.attempts) == (fit_ids[0], 2)
    assert not queue.say(lambda leases: leases.hold(lost[0]))
    assert queue.look(fit_ids[1]).state is FitState.CANCELLED
