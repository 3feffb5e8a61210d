"""A fit goes from the queue to a published version, whatever happens to its fitter."""

import io
import threading
from collections.abc import Callable
from dataclasses import replace

import orjson
import pytest
from typing_extensions import override

import models
from app.domain.access import DEFAULT_PROJECT
from app.domain.errors import NotFoundError, RegressorUnavailableError
from app.domain.fits import ClaimedFit, Fit, FitProblem, FitRequest, FitState, PublishMode
from app.domain.identifiers import Slug, WorkloadId
from app.domain.runs import RunStatus
from app.fitter import Fitter
from app.services.computing.task import (
    ComputationLostError,
    Computer,
    FitOutcome,
    FitTask,
    InProcessComputer,
    OnProgress,
    compute_fit,
)
from app.services.fitting import FittingService
from app.services.uploads.terms import UploadFormat
from app.services.wiring import Services
from models import FORMAT_VERSION, factory_summaries
from tests.support.clock import FakeClock
from tests.support.queries import recorded_queries
from tests.support.regressors import QUICK, fit, make_fitter, store_runs
from tests.support.uploads import make_json_run

SLUG = Slug("resnet")


class InterruptedComputer(Computer):
    """Computes, and lets something happen at the first sign of progress."""

    def __init__(self, happening: Callable[[], object]) -> None:
        self._happening: Callable[[], object] | None = happening

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        def follow(share: float, step: str) -> None:
            happening, self._happening = self._happening, None
            if happening is not None:
                happening()
            on_progress(share, step)

        return compute_fit(task, follow)

    @override
    def close(self) -> None:
        pass


class DyingComputer(InProcessComputer):
    """Loses every computation."""

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        raise ComputationLostError("killed")


class BrokenComputer(InProcessComputer):
    """Has a bug."""

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        raise ZeroDivisionError


class NotingComputer(InProcessComputer):
    """Notes what it computes from."""

    def __init__(self) -> None:
        self.tasks: list[FitTask] = []

    @override
    def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
        self.tasks.append(task)
        return super().compute(task, on_progress)


def request_fit(services: Services, request: FitRequest = QUICK) -> Fit:
    return services.fits.request_fit(DEFAULT_PROJECT, SLUG, request)[0]


def look(services: Services, asked: Fit) -> Fit:
    return services.fits.get(DEFAULT_PROJECT, asked.fit_id)


def fitter_with(
    services: Services, computer: Computer, stop: threading.Event | None = None
) -> Fitter:
    context = services.context
    return Fitter(FittingService(context), computer, context.settings, stop=stop, beat_s=0.0)


def published(services: Services) -> int | None:
    with services.context.database.reading() as stores:
        found = stores.regressors.answering(DEFAULT_PROJECT, [SLUG], FORMAT_VERSION)
    return found[SLUG][1] if SLUG in found else None


def test_step_without_a_queued_fit_does_nothing(services: Services) -> None:
    assert not make_fitter(services.context).step()


def test_fit_publishes_version_one(services: Services, clock: FakeClock) -> None:
    workload_id = store_runs(services.context, SLUG)
    requested = request_fit(services)

    has_worked = make_fitter(services.context).step()

    ended = look(services, requested)
    version = services.regressors.get(DEFAULT_PROJECT, SLUG, 1)
    assert has_worked
    assert (ended.state, ended.progress, ended.regressor_version) == (FitState.SUCCEEDED, 1.0, 1)
    assert (ended.published, ended.step, ended.ended_at) == (True, "published version 1", clock())
    tried = [candidate.regressor for candidate in ended.candidates]
    assert tried == ["log_linear", "pooled.log_linear"]
    assert (version.is_published, version.n_runs, version.fit_id) == (True, 12, requested.fit_id)
    assert version.numeric_ranges["workers"] == (1.0, 8.0)
    assert version.category_levels["gpu_type"] == ("T4",)
    assert published(services) == 1
    with services.context.database.reading() as stores:
        assert len(stores.regressors.load_artifact(workload_id, 1).data) == version.artifact_bytes


def test_fit_knows_boards_of_other_memories_by_their_chips(services: Services) -> None:
    store_runs(services.context, SLUG, gpu_type="H100-64GB")
    request_fit(services)
    computer = NotingComputer()

    fitter_with(services, computer).step()

    (task,) = computer.tasks
    assert task.hardware["H100-64GB"] == replace(task.hardware["H100"], memory_gib=64.0)
    told = [found for summary in factory_summaries() for found in summary.levels]
    public = {level for found in told if found.category == "gpu_type" for level in found.levels}
    assert len(public) > 20
    assert public <= task.hardware.keys()


def test_same_runs_and_seed_give_the_same_artefact(services: Services, clock: FakeClock) -> None:
    store_runs(services.context, SLUG)
    fit(services, SLUG)
    clock.advance(10)
    fit(services, SLUG)

    first, second = (services.regressors.get(DEFAULT_PROJECT, SLUG, number) for number in (1, 2))

    assert first.artifact_sha256 == second.artifact_sha256
    assert first.training_fingerprint == second.training_fingerprint


def test_altered_artefact_is_unavailable_and_beaten_by_any(
    services: Services, clock: FakeClock
) -> None:
    workload_id = store_runs(services.context, SLUG)
    fit(services, SLUG)
    with services.context.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE regressor SET artifact_sha256 = 'altered'")
    clock.advance(10)

    ended = fit(services, SLUG, replace(QUICK, publish=PublishMode.IF_BETTER))

    assert ended.published
    with (
        services.context.database.reading() as stores,
        pytest.raises(RegressorUnavailableError, match="hash"),
    ):
        stores.regressors.load_artifact(workload_id, 1)


def test_unknown_version_has_no_artefact(services: Services) -> None:
    workload_id = store_runs(services.context, SLUG)

    with (
        services.context.database.reading() as stores,
        pytest.raises(NotFoundError, match="resnet/7"),
    ):
        stores.regressors.load_artifact(workload_id, 7)


def test_deleted_workload_has_no_artefact(services: Services) -> None:
    with (
        services.context.database.reading() as stores,
        pytest.raises(RegressorUnavailableError, match="deleted"),
    ):
        stores.regressors.load_artifact(WorkloadId(404), 1)


def test_running_fit_stops_when_it_is_cancelled(services: Services) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)
    computer = InterruptedComputer(lambda: services.fits.cancel(DEFAULT_PROJECT, requested.fit_id))

    fitter_with(services, computer).step()

    ended = look(services, requested)
    assert (ended.state, ended.step) == (FitState.CANCELLED, "cancelled")
    assert published(services) is None


@pytest.mark.parametrize("computer", [InProcessComputer, DyingComputer])
def test_fit_cancelled_while_its_computation_ends_is_cancelled_at_once(
    services: Services, computer: type[InProcessComputer]
) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)

    class LateComputer(computer):  # type: ignore[valid-type, misc]  # of any computer
        @override
        def compute(self, task: FitTask, on_progress: OnProgress) -> FitOutcome:
            try:
                return super().compute(task, on_progress)  # type: ignore[no-any-return]
            finally:
                services.fits.cancel(DEFAULT_PROJECT, requested.fit_id)

    fitter_with(services, LateComputer()).step()

    assert look(services, requested).state is FitState.CANCELLED
    assert published(services) is None


def test_late_fitter_publishes_nothing(services: Services, clock: FakeClock) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)
    fitting = FittingService(services.context)
    late = fitting.claim("late")
    assert late is not None
    outcome = compute_fit(fitting.prepare(late), lambda _share, _step: None)
    clock.advance(services.context.settings.lease_s)
    make_fitter(services.context).step()

    is_published = fitting.publish(late, outcome)

    fitting.leave(late)
    assert not is_published
    ended = look(services, requested)
    assert (ended.state, ended.attempts, ended.regressor_version) == (FitState.SUCCEEDED, 2, 1)
    assert len(services.regressors.list_page(DEFAULT_PROJECT, SLUG).items) == 1


def test_runs_are_read_once_and_learned_from_as_far_as_they_tell(services: Services) -> None:
    store_runs(services.context, SLUG, sizes=(1000.0, 2000.0))
    body = orjson.dumps([make_json_run(workload=SLUG, status=status) for status in RunStatus])
    services.uploads.upload(DEFAULT_PROJECT, io.BytesIO(body), UploadFormat.JSON)
    fitting = FittingService(services.context)
    services.fits.request_fit(DEFAULT_PROJECT, SLUG, QUICK)
    claim = fitting.claim("reader")
    assert claim is not None

    with recorded_queries(services.context.database) as statements:
        task = fitting.prepare(claim)

    assert sum("run.duration_seconds" in statement for statement in statements) == 1
    assert len(task.runs.duration_seconds) == 8 + 1
    assert task.evidence is not None
    assert task.evidence.unfinished is not None
    assert len(task.evidence.unfinished.progress) == 3


def test_lease_is_renewed_while_the_runs_are_read(services: Services, clock: FakeClock) -> None:
    context, renewed, others = services.context, threading.Event(), list[ClaimedFit | None]()

    class SlowFitting(FittingService):
        @override
        def prepare(self, claim: ClaimedFit) -> FitTask:
            clock.advance(0.9 * context.settings.lease_s)
            assert renewed.wait(10.0)
            clock.advance(0.9 * context.settings.lease_s)
            others.append(FittingService(context).claim("another"))
            return super().prepare(claim)

        @override
        def renew(self, claim: ClaimedFit, progress: float, step: str) -> bool:
            is_held = super().renew(claim, progress, step)
            renewed.set()
            return is_held

    store_runs(context, SLUG)
    asked = request_fit(services)
    Fitter(SlowFitting(context), InProcessComputer(), context.settings, beat_s=0.01).step()

    ended = look(services, asked)
    assert (ended.state, ended.attempts, others) == (FitState.SUCCEEDED, 1, [None])


def test_fit_that_is_lost_under_way_is_left_alone(services: Services, clock: FakeClock) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)

    def lose() -> None:
        clock.advance(services.context.settings.lease_s)
        make_fitter(services.context).step()

    fitter_with(services, InterruptedComputer(lose)).step()

    ended = look(services, requested)
    assert (ended.state, ended.attempts) == (FitState.SUCCEEDED, 2)


def test_stopping_fitter_gives_its_fit_back(services: Services) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)
    stop = threading.Event()

    fitter_with(services, InterruptedComputer(stop.set), stop).step()

    waiting = look(services, requested)
    assert (waiting.state, waiting.attempts) == (FitState.QUEUED, 0)
    make_fitter(services.context).step()
    assert look(services, requested).attempts == 1


def test_lost_computation_is_retried_and_then_fails(services: Services) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)
    fitter = fitter_with(services, DyingComputer())

    states = []
    while fitter.step():
        states.append(look(services, requested).state)

    assert states == [FitState.QUEUED, FitState.QUEUED, FitState.FAILED]
    assert look(services, requested).problem == FitProblem("computation_lost", "killed")


def test_bug_fails_the_fit_and_not_the_fitter(services: Services) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)

    has_worked = fitter_with(services, BrokenComputer()).step()

    ended = look(services, requested)
    assert has_worked
    assert ended.problem is not None
    assert (ended.state, ended.problem.code) == (FitState.FAILED, "internal")


def test_runs_that_vanish_before_the_fit_fail_it(services: Services) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)
    with services.context.database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM run")

    make_fitter(services.context).step()

    ended = look(services, requested)
    assert ended.problem is not None
    assert (ended.state, ended.problem.code) == (FitState.FAILED, "no_regressor")


def test_artefact_that_cannot_be_read_again_fails_the_fit(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)
    monkeypatch.setattr(models, "dumps", lambda _portfolio: b"no artefact")

    fitter_with(services, InProcessComputer()).step()

    ended = look(services, requested)
    assert ended.problem is not None
    assert (ended.state, ended.problem.code) == (FitState.FAILED, "fit_failed")


def test_failed_fit_leaves_the_published_version_serving(
    services: Services, clock: FakeClock
) -> None:
    store_runs(services.context, SLUG)
    fit(services, SLUG)
    clock.advance(10)
    request_fit(services)

    fitter_with(services, BrokenComputer()).step()

    assert published(services) == 1


def test_run_steps_until_it_is_told_to_stop(services: Services) -> None:
    store_runs(services.context, SLUG)
    requested = request_fit(services)
    stop = threading.Event()
    thread = threading.Thread(target=fitter_with(services, InProcessComputer(), stop).run)

    thread.start()
    while not look(services, requested).state.is_final:
        stop.wait(0.01)
    stop.set()
    thread.join()

    assert look(services, requested).state is FitState.SUCCEEDED
