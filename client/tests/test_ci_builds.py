"""What a build knows of itself on CI systems and elsewhere, and what is said of drift."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from trainfare_client.ci.builds import Build, read_build
from trainfare_client.ci.comments import thread_of
from trainfare_client.ci.telling import write_findings


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


@pytest.mark.parametrize(
    ("environ", "branch", "base_branch", "pull_request"),
    [
        ({"BRANCH_NAME": "main"}, "main", None, None),
        ({"GIT_BRANCH": "origin/deeper"}, "deeper", None, None),
        (
            {
                "BRANCH_NAME": "PR-17",
                "CHANGE_BRANCH": "main",
                "CHANGE_TARGET": "main",
                "CHANGE_ID": "17",
                "CHANGE_FORK": "bob/nets",
            },
            "bob:main",
            "main",
            17,
        ),
    ],
)
def test_jenkins_tells_of_branches_and_pull_requests(
    environ: dict[str, str],
    branch: str,
    base_branch: str | None,
    pull_request: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    jenkins = {"JENKINS_URL": "https://ci.example/", "GIT_COMMIT": "abc", "BUILD_TAG": "nets-7"}

    build = read_build({**jenkins, **environ})

    assert (build.branch, build.base_branch, build.pull_request) == (
        branch,
        base_branch,
        pull_request,
    )
    assert (build.commit, build.system) == ("abc", "")
    assert build.key == "JENKINS_URL https://ci.example/ nets-7"


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        (
            {
                "BUILDKITE": "true",
                "BUILDKITE_BRANCH": "deeper",
                "BUILDKITE_PULL_REQUEST": "false",
                "BUILDKITE_PIPELINE_DEFAULT_BRANCH": "trunk",
            },
            ("deeper", "trunk", None),
        ),
        (
            {
                "CIRCLECI": "true",
                "CIRCLE_BRANCH": "deeper",
                "CIRCLE_PULL_REQUEST": "https://github.example/ada/nets/pull/17",
            },
            ("deeper", None, 17),
        ),
        (
            {
                "TF_BUILD": "True",
                "BUILD_SOURCEBRANCH": "refs/pull/17/merge",
                "SYSTEM_PULLREQUEST_SOURCEBRANCH": "refs/heads/main",
                "SYSTEM_PULLREQUEST_TARGETBRANCH": "refs/heads/main",
                "SYSTEM_PULLREQUEST_PULLREQUESTID": "17",
                "SYSTEM_PULLREQUEST_ISFORK": "True",
            },
            ("fork:main", "main", 17),
        ),
    ],
)
def test_other_systems_tell_of_the_build_too(
    environ: dict[str, str],
    told: tuple[object, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    build = read_build(environ)

    assert (build.branch, build.base_branch, build.pull_request) == told


def _git(*arguments: str) -> None:
    who = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
    subprocess.run(["git", *who, *arguments], check=True, capture_output=True)


def test_base_branch_is_what_gits_origin_calls_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "origin").mkdir()
    monkeypatch.chdir(tmp_path / "origin")
    _git("init", "-b", "trunk")
    _git("commit", "--allow-empty", "-m", "Begin")
    _git("clone", ".", "../clone")
    monkeypatch.chdir(tmp_path / "clone")
    _git("switch", "-c", "deeper")

    build = read_build({})

    assert (build.branch, build.base_branch) == ("deeper", "trunk")


@pytest.mark.parametrize("name", ["main", "master"])
def test_base_branch_has_a_usual_name_where_no_origin_tells(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    _git("init", "-b", name)
    _git("commit", "--allow-empty", "-m", "Begin")
    _git("switch", "-c", "deeper")

    assert read_build({}).base_branch == name


def test_token_without_a_pull_request_comments_nowhere() -> None:
    pull = Build(system="github", pull_request=3)

    assert thread_of(Build(system="github"), {"GITHUB_TOKEN": "t"}) is None
    assert thread_of(pull, {}) is None
    assert thread_of(Build(pull_request=3), {"GITHUB_TOKEN": "t"}) is None


@pytest.mark.parametrize(
    ("gate", "kind"), [(None, "notice"), ("pass", "notice"), ("warn", "warning"), ("fail", "error")]
)
def test_build_that_cannot_be_judged_is_told_as_the_gate_takes_it(
    gate: str | None, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    report: Any = {
        "summary": "Nothing could be judged.",
        "verdict": "insufficient_data",
        "runs": [],
        "drift": [],
    }

    write_findings(report, Build(system="github"), on_insufficient_data=gate)

    assert f"::{kind} title=Trainfare::Nothing could be judged." in capsys.readouterr().out


def test_creeping_durations_are_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    report: Any = {
        "summary": "The durations of cnn creep up.",
        "verdict": "warn",
        "runs": [],
        "drift": [{"workload": "cnn", "change_ratio": 1.03}],
    }

    write_findings(report, Build(system="github"))

    assert "::warning title=Trainfare::cnn: durations creep up, +3.0%25" in capsys.readouterr().out


def test_slow_build_of_hours_is_told_without_an_exponent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = {
        "workload": "cnn",
        "external_id": "build-1",
        "verdict": "fail",
        "observed_seconds": 45_678.9,
        "expected_seconds": {"median": 30_000.0, "lower": 28_000.0, "upper": 32_000.0},
        "ratio": 1.52263,
    }
    report: Any = {"summary": "Slower.", "verdict": "fail", "runs": [run], "drift": []}

    write_findings(report, Build(system="github"))

    told = "cnn build-1 took 45,679 s; the forecast was 30,000 s (28,000 to 32,000): +52.3%25."
    assert told in capsys.readouterr().out
