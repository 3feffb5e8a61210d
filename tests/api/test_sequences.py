"""Any sequence of requests, restarts and fits leaves what a model in plain Python says."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

import orjson
import pytest
from httpx2 import Response
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from typing_extensions import override

from app.domain.fits import ClaimedFit
from app.services.computing.task import FitOutcome, FitTask, compute_fit
from app.services.fitting import FittingService
from tests.support.driven_application import JSON_TYPE, DrivenApplication
from tests.support.reference_model import (
    UNPROMOTED,
    Cursor,
    FitUnderWay,
    Row,
    StoredProject,
    StoredWorkload,
    to_csv,
)

pytestmark = pytest.mark.lengthy

_QUESTION: Final = {"configuration": {"gpu_type": "T4", "workers": 2}}
_DAY_S: Final = 24 * 3600.0
_projects = st.sampled_from(["team"] * 5 + ["other"])
_slugs = st.sampled_from(["a"] * 5 + ["b"])
_keys = st.sampled_from([None, "first", "second"])
_places = st.integers(0, 11)
_rows = st.lists(
    st.builds(
        Row,
        workload=_slugs,
        external_id=st.sampled_from([None, None, "1", "2", "3", "4"]),
        status=st.sampled_from(["succeeded", "succeeded", "succeeded", "failed", "preempted"]),
        workers=st.sampled_from([1, 2, 4]),
        duration_seconds=st.sampled_from([50.0, 100.0]),
        branch=st.none(),
    ),
    min_size=1,
    max_size=4,
)
_outcomes: Final[list[FitOutcome]] = []
_filters = st.sampled_from([{}, {"status": "succeeded"}, {"excluded": "false"}])


class Sequences(RuleBasedStateMachine):
    """Asks an application for two projects, and compares each answer with the model."""

    def __init__(self, template: Path) -> None:
        super().__init__()
        self.application = DrivenApplication(template)
        self.clock = self.application.clock
        self.fitting = FittingService(self.application.context)
        self.projects = {"team": StoredProject(), "other": StoredProject()}
        self.tokens = {name: self.application.new_token(name) for name in self.projects}
        self.claims: list[tuple[ClaimedFit, FitTask]] = []
        self.cursors: dict[tuple[str, str], Cursor] = {}
        self.answered: dict[tuple[str, str, str | None], tuple[bytes, Response]] = {}

    @override
    def teardown(self) -> None:
        self.application.close()

    def _ask(
        self, project: str, method: str, path: str, body: object = None, /, **query: str | int
    ) -> Response:
        content = None if body is None else orjson.dumps(body)
        token = self.tokens[project]
        return self.application.ask(token, method, path, content, JSON_TYPE, params=query)

    def _post(
        self, project: str, path: str, body: bytes, content_type: str, key: str | None
    ) -> Response | None:
        """Return a first answer; None for one that was compared with the first of its key."""
        token, headers = self.tokens[project], {} if key is None else {"Idempotency-Key": key}
        answer = self.application.ask(token, "POST", path, body, content_type, headers=headers)
        is_replayed = answer.headers.get("idempotent-replayed") == "true"
        known = self.answered.get((project, path, key))
        if known is None:
            assert not is_replayed
            if key is not None:
                self.answered[project, path, key] = body, answer
            return answer
        sent, first = known
        if sent == body:
            assert is_replayed
            assert (answer.status_code, answer.content) == (first.status_code, first.content)
        else:
            assert answer.json()["code"] == "idempotency_key_reused"
        return None

    def _note_rows(
        self, project: str, rows: Sequence[Row], answer: Response, reason: str | None = None
    ) -> list[tuple[str, str]]:
        """Compare an answer with the model; return the workload and name of each row's run."""
        stored = self.projects[project]
        origins = stored.origins(rows)
        if origins is None:
            assert answer.json()["code"] == "run_conflict", answer.text
            return []
        entries = answer.json()["runs"]
        names: list[str] = [entry["run_id"] for entry in entries]
        assert [entry["duplicate"] for entry in entries] == [each is not None for each in origins]
        for row, origin, name in zip(rows, origins, names, strict=True):
            if origin is None:
                stored.store(name, row, reason)
            else:
                assert name == (names[origin] if isinstance(origin, int) else origin)
        return [(row.workload, name) for row, name in zip(rows, names, strict=True)]

    @initialize()
    def begin(self) -> None:
        rows = [Row("a", "1", "succeeded", 2, 50.0)]
        self.upload("team", rows, as_csv=True, key=None)
        self.upload("team", rows, as_csv=False, key=None)
        self.request_fit("team", "a", key=None)
        self.claim_fit()
        self.end_fit(0, gives_back=False)

    @rule(project=_projects, rows=_rows, as_csv=st.booleans(), key=_keys)
    def upload(self, project: str, rows: list[Row], *, as_csv: bool, key: str | None) -> None:
        body = to_csv(rows) if as_csv else orjson.dumps([row.to_document() for row in rows])
        content_type = "text/csv" if as_csv else JSON_TYPE
        answer = self._post(project, "/v1/runs", body, content_type, key)
        if answer is not None:
            self._note_rows(project, rows, answer)

    @rule(project=_projects, rows=_rows, key=_keys)
    def report(self, project: str, rows: list[Row], key: str | None) -> None:
        document = {"branch": "topic", "base_branch": "main"}
        body = orjson.dumps(document | {"runs": [row.to_document() for row in rows]})
        answer = self._post(project, "/v1/ci/reports", body, JSON_TYPE, key)
        if answer is None:
            return
        labelled = [row._replace(branch="topic") for row in rows]
        if entries := self._note_rows(project, labelled, answer, UNPROMOTED):
            self.projects[project].reports[answer.json()["report_id"]] = entries

    @rule(project=_projects, place=_places)
    def promote(self, project: str, place: int) -> None:
        stored = self.projects[project]
        if stored.reports:
            report_id = _pick(stored.reports, place)
            answer = self._ask(project, "POST", f"/v1/ci/reports/{report_id}:promote")
            assert answer.status_code == (200 if stored.promote(report_id) else 404), answer.text

    @rule(project=_projects, place=_places, reason=st.sampled_from([None, "noisy"]))
    def change_run(self, project: str, place: int, reason: str | None) -> None:
        runs = self.projects[project].runs()
        if runs:
            run_id = _pick(runs, place)
            change = {"excluded": False} if reason is None else {"excluded": True, "reason": reason}
            answer = self._ask(project, "PATCH", f"/v1/runs/{run_id}", change)
            assert answer.json()["excluded_reason"] == reason
            runs[run_id].excluded_reason = reason

    @rule(project=_projects, place=_places)
    def delete_run(self, project: str, place: int) -> None:
        stored = self.projects[project]
        if stored.runs():
            run_id = _pick(stored.runs(), place)
            assert self._ask(project, "DELETE", f"/v1/runs/{run_id}").status_code == 204
            stored.remove_run(run_id)

    @rule(project=_projects, slug=_slugs)
    def delete_workload(self, project: str, slug: str) -> None:
        stored = self.projects[project]
        answer = self._ask(project, "DELETE", f"/v1/workloads/{slug}")
        assert answer.status_code == (204 if slug in stored.workloads else 404)
        if slug in stored.workloads:
            stored.remove_workload(slug)

    @rule(project=_projects, slug=_slugs, wanted=_filters, size=st.sampled_from([1, 2]))
    def turn_page(self, project: str, slug: str, wanted: dict[str, str], size: int) -> None:
        workload = self.projects[project].workloads.get(slug)
        if workload is None:
            return
        cursor = self.cursors.get((project, slug))
        if cursor is None or cursor.workload is not workload:
            cursor = Cursor(workload, wanted, workload.matching(wanted))
            self.cursors[project, slug] = cursor
        query: dict[str, str | int] = {**cursor.wanted, "page_size": size}
        if cursor.token is not None:
            query["page_token"] = cursor.token
        page = self._ask(project, "GET", f"/v1/workloads/{slug}/runs", **query).json()
        cursor.note([run["run_id"] for run in page["runs"]])
        cursor.token = page["next_page_token"]
        if cursor.token is None:
            assert not cursor.awaited
            del self.cursors[project, slug]

    @rule(project=_projects, slug=_slugs, key=_keys)
    def request_fit(self, project: str, slug: str, key: str | None) -> None:
        path = f"/v1/workloads/{slug}/fits"
        answer = self._post(project, path, b"{}", JSON_TYPE, key)
        if answer is None:
            return
        workload = self.projects[project].workloads.get(slug)
        if workload is None or not workload.usable:
            assert answer.status_code == (404 if workload is None else 409)
        elif workload.active_fit is None:
            assert answer.status_code == 202
            workload.fits[answer.json()["fit_id"]] = FitUnderWay()
        else:
            assert (answer.status_code, answer.json()["fit_id"]) == (200, workload.active_fit)

    @rule()
    def claim_fit(self) -> None:
        fits = {name: fit for each in self.projects.values() for name, fit in each.fits().items()}
        for fit in fits.values():
            if fit.is_silent(self.clock()) and fit.is_cancel_requested:
                fit.state = "cancelled"
        claim = self.fitting.claim("fitter")
        if claim is None:
            assert all(
                fit.state != "queued" and not fit.is_silent(self.clock()) for fit in fits.values()
            )
            return
        fit = fits[claim.fit.fit_id]
        assert fit.state == "queued" or fit.is_silent(self.clock())
        fit.state, fit.token = "running", claim.lease_token
        fit.lease_ends_at = self.clock() + timedelta(seconds=self.application.settings.lease_s)
        self.claims.append((claim, self.fitting.prepare(claim)))

    @precondition(lambda self: self.claims)
    @rule(place=_places, gives_back=st.sampled_from([False, False, True]))
    def end_fit(self, place: int, *, gives_back: bool) -> None:
        claim, task = self.claims.pop(place % len(self.claims))
        workload, fit = self._find(claim)
        is_held = fit.state == "running" and fit.token == claim.lease_token
        if not gives_back and self.fitting.publish(claim, _outcome(task)):
            assert is_held
            assert not fit.is_cancel_requested
            fit.state = "succeeded"
            workload.n_versions += 1
            workload.published = workload.n_versions
            return
        assert gives_back or not is_held or fit.is_cancel_requested
        self.fitting.leave(claim)
        if is_held:
            fit.state = "cancelled" if fit.is_cancel_requested else "queued"

    def _find(self, claim: ClaimedFit) -> tuple[StoredWorkload, FitUnderWay]:
        """Return the workload and the state of a fit; both empty if they were removed."""
        for stored in self.projects.values():
            for workload in stored.workloads.values():
                if claim.fit.fit_id in workload.fits:
                    return workload, workload.fits[claim.fit.fit_id]
        return StoredWorkload(), FitUnderWay("removed")

    @rule(project=_projects, place=_places)
    def cancel_fit(self, project: str, place: int) -> None:
        fits = self.projects[project].fits()
        if fits:
            fit_id = _pick(fits, place)
            answer, fit = self._ask(project, "POST", f"/v1/fits/{fit_id}:cancel"), fits[fit_id]
            if fit.state == "queued" or fit.is_silent(self.clock()):
                fit.state = "cancelled"
            fit.is_cancel_requested = fit.state == "running"
            assert answer.json()["state"] == fit.state

    @rule(project=_projects, slug=_slugs, version=st.integers(1, 3))
    def publish(self, project: str, slug: str, version: int) -> None:
        path = f"/v1/workloads/{slug}/regressors/{version}:publish"
        answer = self._ask(project, "POST", path)
        workload = self.projects[project].workloads.get(slug)
        if workload is None or version > workload.n_versions:
            assert answer.status_code == 404
        else:
            assert answer.json()["published"]
            workload.published = version

    @rule(project=_projects, slug=_slugs, version=st.sampled_from([None, 1, 2]))
    def forecast(self, project: str, slug: str, version: int | None) -> None:
        self.application.let_knowledge_age()
        question = _QUESTION | {"workload": slug, "regressor_version": version}
        answer = self._ask(project, "POST", "/v1/forecasts", question)
        workload = self.projects[project].workloads.get(slug)
        if workload is None:
            assert answer.json()["code"] == "unknown_workload"
        elif version is not None and version > workload.n_versions:
            assert answer.json()["code"] in {"no_regressor", "not_found"}
        elif workload.published is None:
            assert answer.json()["code"] == "no_regressor"
        else:
            assert answer.json()["regressor_version"] == (version or workload.published)

    @rule(seconds=st.sampled_from([0.5, 40.0, _DAY_S]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        if seconds == _DAY_S:
            self.answered.clear()

    @rule(project=_projects)
    def restart(self, project: str) -> None:
        self.application.let_knowledge_age()
        before = [answer.content for answer in self._everything(project)]
        self.application.restart()
        assert [answer.content for answer in self._everything(project)] == before

    def _everything(self, project: str) -> Iterator[Response]:
        for path in ("/v1/workloads", "/v1/ci/reports"):
            yield self._ask(project, "GET", path)
        for slug in self.projects[project].workloads:
            for path in ("", "/runs", "/fits", "/regressors"):
                yield self._ask(project, "GET", f"/v1/workloads/{slug}{path}")
            question = _QUESTION | {"workload": slug}
            yield self._ask(project, "POST", "/v1/forecasts:batch", {"requests": [question]})

    @rule(project=_projects)
    def read(self, project: str) -> None:
        self._compare_list(project)
        stored = self.projects[project]
        for slug, workload in stored.workloads.items():
            path = f"/v1/workloads/{slug}"
            runs = self._ask(project, "GET", f"{path}/runs").json()["runs"]
            assert {run["run_id"]: run["excluded_reason"] for run in runs} == {
                run_id: run.excluded_reason for run_id, run in workload.runs.items()
            }
            fits = self._ask(project, "GET", f"{path}/fits").json()["fits"]
            assert {fit["fit_id"]: fit["state"] for fit in fits} == {
                fit_id: fit.state for fit_id, fit in workload.fits.items()
            }
            features = self._ask(project, "GET", path).json()["features"]
            n_usable = features["workers"]["runs"] if features else 0
            assert n_usable == len(workload.usable)
        reports = self._ask(project, "GET", "/v1/ci/reports").json()["reports"]
        assert {report["report_id"] for report in reports} == stored.reports.keys()
        paths = [f"/v1/runs/{run_id}" for run_id in stored.runs()]
        for path in paths[-3:]:
            foreign = "other" if project == "team" else "team"
            assert self._ask(foreign, "GET", path).status_code == 404
        for path in stored.gone[-3:]:
            assert self._ask(project, "GET", path).status_code == 404

    def _compare_list(self, project: str) -> None:
        listed = self._ask(project, "GET", "/v1/workloads").json()["workloads"]
        assert {
            entry["workload"]: (entry["runs"], entry["published_version"]) for entry in listed
        } == {
            slug: (workload.counts(), workload.published)
            for slug, workload in self.projects[project].workloads.items()
        }

    @invariant()
    def compare_list(self) -> None:
        self._compare_list("team")
        for cursor in self.cursors.values():
            cursor.awaited &= cursor.workload.matching(cursor.wanted)


def _pick(named: Iterable[str], place: int) -> str:
    names = list(named)
    return names[place % len(names)]


def _outcome(task: FitTask) -> FitOutcome:
    """Return the first outcome for all fits: what they learn is no matter here."""
    if not _outcomes:
        quick = replace(task, request=replace(task.request, regressors=("log_linear",)))
        _outcomes.append(compute_fit(quick, lambda *_: None))
    return _outcomes[0]


def test_sequences_leave_what_the_model_says(sqlite_template: Path) -> None:
    class OnCopies(Sequences):
        def __init__(self) -> None:
            super().__init__(sqlite_template)

    run_state_machine_as_test(
        OnCopies,
        settings=hypothesis_settings(
            max_examples=12,
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
            phases=[phase for phase in Phase if phase is not Phase.explain],
        ),
    )
