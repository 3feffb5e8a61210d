"""Measures a profiling plan: run, upload, fit, plan again, until nothing is left to gain."""

import shlex
import signal
import time
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from app.cli.client import check_fit
from app.cli.connection import Connection, path_of
from app.cli.failures import ExitCode, RefusedError, UnreachableError, UsageError
from app.cli.following import fit_all_runs
from app.cli.machine import Machine
from app.cli.output import print_note, share_progress
from app.cli.profiling.log import Event, Session, SessionLog, instant_of, scenario_of
from app.cli.profiling.printing import describe, show_next, show_outcome, show_session
from app.cli.profiling.requests import PlanRequest, workload_or_refusal
from app.cli.profiling.training import (
    CommandRunner,
    end_group,
    environment_of,
    fields_of,
    fill_in,
    start_ticks_of,
)
from app.domain.wording import say_count

Document = dict[str, Any]
_PLANNED_AT_ONCE: Final = 20
_FRESH_ATTEMPTS: Final = 20
_FRESH_PAUSE_S: Final = 0.5
_RUNS_MADE: Final = "runs"


class Profiler:
    """One profiling session of one workload on this machine.

    Parameters
    ----------
    connection
        The service.
    plan_request
        The plan request.
    command
        The training command, with placeholders.
    machine
        Decides which configurations can run.
    runner
        Runs the command.
    log_path
        The resumable log; by default named after the workload, in the working directory.
    max_runs, max_failures
        The session ends after so many runs in total, or so many failed ones in a row.
    """

    def __init__(
        self,
        connection: Connection,
        plan_request: PlanRequest,
        command: Sequence[str],
        *,
        machine: Machine,
        runner: CommandRunner,
        log_path: Path | None,
        max_runs: int,
        max_failures: int,
    ) -> None:
        self._connection, self._plan_request, self._command = (
            connection,
            plan_request,
            list(command),
        )
        self._machine, self._runner = machine, runner
        self._log = SessionLog(log_path or Path(f"profile-{plan_request.workload}.jsonl"))
        self._max_runs, self._max_failures = max_runs, max_failures
        self._version = 0

    def first_plan(self) -> Document:
        """Return the plan with which a session would begin; nothing is written.

        Raises
        ------
        RefusedError
            If the service does not know the workload, which only a session declares.
        """
        unknown = self._unknown()
        if unknown is not None:
            raise RefusedError(
                f"Nothing is planned. {unknown.detail}",
                "Correct --workload; or leave out --dry-run, and the session declares the workload;"
                " or declare it first: curl -X PUT -H 'Content-Type: application/json'"
                f" -d '{{}}' {self._connection.url}{self._path}",
            )
        return self._fetch_plan(None, at_most=self._max_runs)

    def commands(self, plan: Document) -> list[tuple[Document, str]]:
        """Return each planned run with its command, or with the reason why it cannot run here."""
        rows = []
        for planned in plan["runs"]:
            refusal = self._machine.refusal(planned["configuration"])
            line = shlex.join(fill_in(self._command, fields_of(planned)))
            rows.append((planned, f"skipped: {refusal}" if refusal else line))
        return rows

    def run(self, *, is_new: bool, as_json: bool) -> None:
        """Measure until the plan has no more runs that this machine can host.

        Raises
        ------
        RefusedError
            If too many runs fail in a row.
        UsageError
            If the log belongs to another session or cannot be written, or the command has a
            placeholder that the plan does not set.
        UnreachableError
            If the service becomes unreachable; the log keeps what was not uploaded yet.
        """
        is_declared = self._declare()
        with self._log.claimed():
            session = self._resume(is_new=is_new)
            if session.stopped is None:
                if is_declared:
                    self._note_removed(session)
                self._go_on(session)
        show_session(session, self._fetch_plan(session)["targets"], as_json=as_json)

    def _go_on(self, session: Session) -> None:
        try:
            self._catch_up(session)
            self._measure(session)
        except UnreachableError:
            n_pending = len(session.pending())
            waiting = f" with {say_count(n_pending, 'run')} not uploaded yet" if n_pending else ""
            print_note(
                f"The session is kept in {self._log.path}{waiting}; type the same line again"
                " when the service answers."
            )
            raise

    @property
    def _path(self) -> str:
        return path_of(self._plan_request.workload)

    def _unknown(self) -> RefusedError | None:
        """Return the service's refusal if it does not know the workload, else None."""
        document = workload_or_refusal(self._connection, self._plan_request.workload)
        return document if isinstance(document, RefusedError) else None

    def _declare(self) -> bool:
        """Declare the workload if the service does not know it; return whether it did not."""
        unknown = self._unknown()
        if unknown is None:
            return False
        self._connection.ask("PUT", self._path, json={})
        # The second sentence suggests a similar name, if there is one.
        _, _, nearest = unknown.detail.partition(". ")
        print_note(f"Declared the workload {self._plan_request.workload}. {nearest}".rstrip())
        return True

    def _resume(self, *, is_new: bool) -> Session:
        session = None if is_new else self._log.read()
        workload, body = self._plan_request.workload, self._plan_request.body
        if session is None or session.is_untouched:
            return self._log.begin(workload, body)
        if (session.workload, session.request) != (workload, body):
            raise UsageError(
                f"{self._log.path} is the log of another plan, for {session.workload}.",
                "Name another file with --log, or start over with --again.",
            )
        done = len(session.finished)
        if session.stopped is not None and session.stopped["reason"] == _RUNS_MADE:
            # The number of runs is not part of the plan: a session may be continued with more.
            session.stopped = session.stopped if done >= self._max_runs else None
        if session.stopped is not None:
            print_note(f"{self._log.path} has ended; --again starts over.")
        else:
            print_note(f"Resuming after {say_count(done, 'run')} of {self._log.path}.")
        return session

    def _catch_up(self, session: Session) -> None:
        """Complete what an interrupted session left undone: end its run, upload, fit."""
        if session.interrupted is not None:
            self._end_interrupted(session, session.interrupted)
        self._upload_pending(session)
        if not session.is_fitted:
            self._fit(session)

    def _note_removed(self, session: Session) -> None:
        """Log that the service lost the session's runs, after it had to declare the workload."""
        if session.uploaded:
            print_note("The workload was removed: the runs of the session are uploaded again.")
            self._log.append(session, "removed")

    def _end_interrupted(self, session: Session, interrupted: Event) -> None:
        """End the run that was in progress when the session was killed, and log its duration."""
        output = self._next_output(session)
        if interrupted.get("birth") and start_ticks_of(interrupted["pid"]) == interrupted["birth"]:
            print_note("The interrupted run was still running; it is stopped and repeated.")
            end_group(interrupted["pid"], signal.SIGKILL)
            ended_at = time.time()
        else:
            # Its end was not observed: it lasted at least until its last output.
            ended_at = output.stat().st_mtime if output.exists() else 0.0
        started_at = datetime.fromisoformat(interrupted["at"]).timestamp()
        self._log.append(
            session,
            "finished",
            external_id=interrupted["external_id"],
            status="cancelled",
            duration_seconds=max(ended_at - started_at, 0.0),
            exit_code=None,
            started_at=interrupted["at"],
            price_per_hour=interrupted.get("price_per_hour"),
            output=str(output),
            **scenario_of(interrupted),
        )

    def _next_output(self, session: Session) -> Path:
        return self._log.outputs / f"{len(session.finished) + 1}.txt"

    def _measure(self, session: Session) -> None:
        while True:
            if len(session.finished) >= self._max_runs:
                made = "1 run was" if self._max_runs == 1 else f"{self._max_runs} runs were"
                self._stop(session, _RUNS_MADE, f"{made} made, as many as asked.")
                return
            plan = self._fetch_plan(session)
            if not plan["runs"]:
                self._end(session, plan)
                return
            planned = self._next(session, plan)
            if planned is None:
                # Skipped runs are excluded from the next plan.
                continue
            show_next(plan, planned)
            self._run_planned(session, planned)
            if self._declare():
                self._note_removed(session)
            self._upload_pending(session)
            self._fit(session)
            self._check_failures(session)

    def _end(self, session: Session, plan: Document) -> None:
        if session.skipped and not session.finished:
            self._stop(session, "not_hosted", "This machine cannot host any of the planned runs.")
        else:
            self._stop(session, plan["stop"]["reason"], plan["stop"]["message"])

    def _stop(self, session: Session, reason: str, message: str) -> None:
        self._log.append(session, "stopped", reason=reason, message=message)

    def _next(self, session: Session, plan: Document) -> Document | None:
        """Return the first planned run that this machine can host; log those before as skipped."""
        for planned in plan["runs"]:
            refusal = self._machine.refusal(planned["configuration"])
            if refusal is None:
                return dict(planned)
            print_note(f"Skipped: {describe(planned)} {refusal}.")
            self._log.append(session, "skipped", reason=refusal, **scenario_of(planned))
        return None

    def _run_planned(self, session: Session, planned: Document) -> None:
        """Run the command once and log the outcome.

        Raises
        ------
        SystemExit
            If a signal ended it; the session can be resumed from its log.
        """
        scenario, fields = scenario_of(planned), fields_of(planned)
        number = len(session.finished) + 1
        external_id = f"profile-{session.session_id}-{number}"
        command = fill_in(self._command, fields)
        output = self._next_output(session)
        output.parent.mkdir(parents=True, exist_ok=True)
        environment = environment_of(fields, workload=session.workload, external_id=external_id)
        started_at = datetime.now(UTC)

        def note_start(pid: int) -> None:
            self._log.append(
                session,
                "started",
                external_id=external_id,
                pid=pid,
                birth=start_ticks_of(pid),
                price_per_hour=planned["price_per_hour"],
                **scenario,
            )

        expected = (planned["duration_seconds"] or {}).get("median")
        with share_progress() as progress:
            task = progress.add_task(f"run {number}", total=1.0, step=describe(planned))
            outcome = self._runner.run(
                command,
                environment,
                output,
                on_start=note_start,
                on_tick=lambda elapsed: progress.update(
                    task, completed=min(elapsed / expected, 0.99) if expected else 0.0
                ),
            )
        self._log.append(
            session,
            "finished",
            external_id=external_id,
            status=outcome.status,
            duration_seconds=outcome.duration_seconds,
            exit_code=outcome.exit_code,
            started_at=started_at,
            price_per_hour=planned["price_per_hour"],
            output=str(output),
            **scenario,
        )
        show_outcome(number, planned, outcome, output)
        if outcome.status == "cancelled":
            print_note("Interrupted; type the same line again to go on.")
            raise SystemExit(ExitCode.INTERRUPTED)

    def _upload_pending(self, session: Session) -> None:
        for event in session.pending():
            self._upload(session, event)

    def _upload(self, session: Session, event: Event) -> None:
        run = {
            "workload": session.workload,
            "external_id": event["external_id"],
            "status": event["status"],
            "duration_seconds": event["duration_seconds"],
            "started_at": instant_of(event["started_at"]),
            "labels": {"profiling_session": session.session_id},
            **scenario_of(event),
        }
        # A key of its own: the first answer must not be replayed where the run has been removed.
        self._connection.ask(
            "POST", "/v1/runs", json=[run], headers={"Idempotency-Key": uuid.uuid4().hex}
        )
        self._log.append(session, "uploaded", external_id=event["external_id"])

    def _fit(self, session: Session) -> None:
        if any(event["status"] == "succeeded" for event in session.finished):
            fit = fit_all_runs(self._connection, session.workload, {})
            check_fit(fit)
            self._version = fit["regressor_version"] or 0
        self._log.append(session, "fitted", version=self._version)

    def _fetch_plan(self, session: Session | None, *, at_most: int | None = None) -> Document:
        """Return the plan of what remains to be measured, from the newest regressor."""
        body = {"runs": _PLANNED_AT_ONCE, **self._plan_request.body}
        if at_most is not None:
            body["runs"] = min(body["runs"], at_most)
        if session is not None:
            attempted = session.attempted()
            body["exclude"] = [*body.get("exclude", []), *attempted]
            if body.get("budget") is not None:
                body["made"] = [*body.get("made", []), *session.paid()]
        path = f"{self._path}/profiling-plans"
        for _ in range(_FRESH_ATTEMPTS):
            plan: Document = self._connection.post(path, body, required="runs")
            if (plan["regressor_version"] or 0) >= self._version:
                break
            # Web processes check for a newer version about every second.
            time.sleep(_FRESH_PAUSE_S)
        return plan

    def _check_failures(self, session: Session) -> None:
        last = session.finished[-self._max_failures :]
        if len(last) < self._max_failures or any(event["status"] == "succeeded" for event in last):
            return
        runs = "run" if self._max_failures == 1 else f"{self._max_failures} runs"
        raise RefusedError(
            f"The last {runs} did not succeed; see {last[-1]['output']}.",
            "Correct the command and type the line again to go on with what was not tried yet, or"
            " with --again to start over; or allow more with --max-failures.",
        )
