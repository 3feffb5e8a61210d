"""Following a fit, without a service."""

from typing import Any
from unittest.mock import Mock

import pytest

from app.cli import following
from app.cli.connection import Connection


def test_fit_that_no_fitter_can_start_says_so_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_POLL_INTERVAL_S", 0.0)
    fit = {"fit_id": "fit_1", "workload": "resnet", "progress": 0.0}
    queued = {**fit, "state": "queued", "step": "no fitter is running"}
    ended = {**fit, "state": "succeeded", "step": "published version 1", "progress": 1.0}
    connection = Mock(spec=Connection)
    connection.get.side_effect = [queued, queued, ended]

    found = following.follow(connection, queued)

    assert found == ended
    assert capsys.readouterr().err == "Fit fit_1 is queued: no fitter is running.\n"


_PLAIN = {
    "time_budget_s": 60.0, "seed": 0, "regressors": None, "publish": "auto", "runs_since": None,
}  # fmt: skip


def _fit(fit_id: str, state: str, **request: object) -> dict[str, Any]:
    asked = {**_PLAIN, **request}
    return {
        "fit_id": fit_id, "workload": "resnet", "state": state, "progress": 0.5, "request": asked,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("active", "options"),
    [
        # It began before the last run was stored, perhaps.
        (_fit("fit_1", "running"), {}),
        (_fit("fit_1", "queued", publish="never"), {}),
        (_fit("fit_1", "queued"), {"seed": 1}),
        (_fit("fit_1", "queued", regressors=["log_linear"]), {"seed": None}),
    ],
)
def test_fit_that_is_not_as_asked_is_followed_by_another(
    active: dict[str, Any],
    options: dict[str, int | None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(following, "_POLL_INTERVAL_S", 0.0)
    given = {name: value for name, value in options.items() if value is not None}
    own = _fit("fit_2", "queued", **given)
    connection = Mock(spec=Connection)
    connection.post.side_effect = [active, own]
    connection.get.side_effect = [{**active, "state": "failed"}, {**own, "state": "succeeded"}]

    found = following.fit_all_runs(connection, "resnet", options)

    assert (found["fit_id"], found["state"]) == ("fit_2", "succeeded")
    assert capsys.readouterr().err == "Fit fit_1 is under way already; yours follows it.\n"


def test_fit_that_waits_still_reads_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_POLL_INTERVAL_S", 0.0)
    waiting = _fit("fit_1", "queued")
    connection = Mock(spec=Connection)
    connection.post.side_effect = [waiting]
    connection.get.side_effect = [{**waiting, "state": "succeeded"}]

    options = {"time_budget_s": 60.0, "publish": None}
    assert following.fit_all_runs(connection, "resnet", options)["state"] == "succeeded"
