"""What a build knows of itself on GitHub, on GitLab and elsewhere, and what is said of drift."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from trainfare_client.ci.builds import Build, read_build
from trainfare_client.ci.comments import thread_of
from trainfare_client.ci.telling import tell


def _event(tmp_path: Path, document: object) -> dict[str, str]:
    file = tmp_path / "event.json"
    file.write_text(json.dumps(document))
    return {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(file), "GITHUB_REF_NAME": "main"}


def test_push_to_the_default_branch_is_on_base(tmp_path: Path) -> None:
    environ = _event(tmp_path, {"repository": {"default_branch": "main"}})

    build = read_build({**environ, "GITHUB_SHA": "abc"})

    assert (build.commit, build.branch, build.base_branch) == ("abc", "main", "main")
    assert build.pull_request is None


def test_branch_of_a_fork_is_never_the_base_branch(tmp_path: Path) -> None:
    pull = {
        "number": 3,
        "head": {"ref": "main", "label": "bob:main", "repo": {"full_name": "bob/nets"}},
        "base": {"ref": "main", "repo": {"full_name": "ada/nets"}},
    }

    build = read_build(_event(tmp_path, {"pull_request": pull}))

    assert (build.branch, build.base_branch) == ("bob:main", "main")


@pytest.mark.parametrize("content", ["{", "[]"])
def test_event_that_cannot_be_read_tells_nothing(tmp_path: Path, content: str) -> None:
    environ = _event(tmp_path, {})
    Path(environ["GITHUB_EVENT_PATH"]).write_text(content)

    assert read_build(environ).branch == "main"


def test_gitlab_pipeline_of_a_branch_has_no_pull_request() -> None:
    build = read_build(
        {"GITLAB_CI": "true", "CI_COMMIT_REF_NAME": "deeper", "CI_DEFAULT_BRANCH": "main"}
    )

    assert (build.branch, build.base_branch, build.pull_request) == ("deeper", "main", None)


def test_elsewhere_git_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    outside = read_build({})
    subprocess.run(["git", "init", "--quiet", "-b", "deeper"], check=True)

    inside = read_build({})
    monkeypatch.setenv("PATH", str(tmp_path))

    assert outside == Build()
    assert (inside.branch, inside.commit) == ("deeper", None)
    assert read_build({}) == Build()
    assert inside.idempotency_key(b"") is None


def test_token_without_a_pull_request_comments_nowhere() -> None:
    pull = Build(system="github", pull_request=3)

    assert thread_of(Build(system="github"), {"GITHUB_TOKEN": "t"}) is None
    assert thread_of(pull, {}) is None
    assert thread_of(Build(pull_request=3), {"GITHUB_TOKEN": "t"}) is None


def test_creeping_durations_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    report: Any = {
        "summary": "The durations of cnn creep up.",
        "verdict": "warn",
        "runs": [],
        "drift": [{"workload": "cnn", "change_ratio": 1.03}],
    }

    tell(report, Build(system="github"))

    assert "::warning title=Trainfare::cnn: durations creep up, +3.0%25" in capsys.readouterr().out
