"""Following a fit, without a service."""

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


def test_fit_that_began_before_the_last_run_was_stored_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "_POLL_INTERVAL_S", 0.0)
    other = {"fit_id": "fit_1", "workload": "resnet", "state": "running", "progress": 0.5}
    own = {"fit_id": "fit_2", "workload": "resnet", "state": "queued", "progress": 0.0}
    connection = Mock(spec=Connection)
    connection.post.side_effect = [other, own]
    connection.get.side_effect = [{**other, "state": "failed"}, {**own, "state": "succeeded"}]

    found = following.fit_all_runs(connection, "resnet")

    assert (found["fit_id"], found["state"]) == ("fit_2", "succeeded")


def test_fit_that_waits_still_reads_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_POLL_INTERVAL_S", 0.0)
    waiting = {"fit_id": "fit_1", "workload": "resnet", "state": "queued", "progress": 0.0}
    connection = Mock(spec=Connection)
    connection.post.side_effect = [waiting]
    connection.get.side_effect = [{**waiting, "state": "succeeded"}]

    assert following.fit_all_runs(connection, "resnet")["state"] == "succeeded"
