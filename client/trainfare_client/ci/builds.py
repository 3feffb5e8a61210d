"""What a CI system says about the build that it runs; git supplies the rest."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trainfare_client.ci.systems import system_of
from trainfare_client.collectors.surroundings import read_labels
from trainfare_client.requests import encoded
from trainfare_client.uploads import has_external_id

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from trainfare_client.documents import MeasuredRun

GITHUB: Final = "github"
GITLAB: Final = "gitlab"
_GIT_TIMEOUT_S: Final = 5.0
_SHA_LABEL: Final = "git_sha"
_GITLAB_PIPELINE: Final = ("CI_SERVER_URL", "CI_PROJECT_ID", "CI_PIPELINE_ID")


@dataclass(frozen=True)
class Build:
    """The origin of new runs; what is unknown is None.

    Attributes
    ----------
    system
        `github` or `gitlab`; empty on any other machine.
    branch
        Prefixed with its owner (`ada:main`) if it lies in a fork, so that a fork's branch is never
        taken for the base branch of the same name.
    base_branch
        The branch that the pull request goes into, else the project's default branch; where no
        system states it, that of git's `origin`, or `main` or `master` if there is one.
    key
        Identifies the build within its system.
    """

    system: str = ""
    commit: str | None = None
    branch: str | None = None
    base_branch: str | None = None
    pull_request: int | None = None
    key: str | None = None

    def split(self, runs: Sequence[MeasuredRun]) -> tuple[list[MeasuredRun], list[MeasuredRun]]:
        """Return the runs of this build's commit or of no stated commit, and those of others.

        Collectors record the commit that the CI system states. For a pull request GitHub states the
        merge commit, whereas `commit` is the head of its branch: runs of either belong here.
        """
        own_commits = [commit for commit in (self.commit, read_labels().get(_SHA_LABEL)) if commit]
        own: list[MeasuredRun] = []
        others: list[MeasuredRun] = []
        for run in runs:
            run_commit = _commit_of(run)
            is_own = (
                not run_commit
                or not self.commit
                or any(_is_same_commit(run_commit, commit) for commit in own_commits)
            )
            (own if is_own else others).append(run)
        return own, others

    def identified(self, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the runs with an `external_id` each, so that a repeated step adds none.

        It is derived from the build, else the commit, from the row and from the measured values: a
        random id would differ in the repetition. Where neither is known, equal numbers may be a new
        measurement, and runs get no id.
        """
        origin = self.key or self.commit
        context = [origin, self.commit, self.branch, self.base_branch, self.pull_request]
        return [
            dict(run)
            if origin is None or has_external_id(run)
            else {**run, "external_id": f"ci-{_digest(encoded([context, row, run]))[:16]}"}
            for row, run in enumerate(runs)
        ]

    def idempotency_key(self, body: bytes) -> str | None:
        """Return a key under which a repeated step stores nothing twice, None outside of CI.

        The body is part of it, as the jobs of a matrix are one build with different runs.
        """
        if self.key is None:
            return None
        return "ci-" + _digest(self.key.encode() + b"\n" + body)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _commit_of(run: Mapping[str, Any]) -> str:
    labels = run.get("labels")
    sha = labels.get(_SHA_LABEL) if isinstance(labels, dict) else run.get(f"label.{_SHA_LABEL}")
    return str(sha or "")


def _is_same_commit(one: str, other: str) -> bool:
    """Whether two commit hashes, each perhaps abbreviated, are of the same commit."""
    return one.startswith(other) or other.startswith(one)


def read_build(environ: Mapping[str, str] = os.environ) -> Build:
    """Return the build described by the environment."""
    if environ.get("GITHUB_ACTIONS"):
        return _github(environ)
    if environ.get("GITLAB_CI"):
        return _gitlab(environ)
    return _other_system(environ)


def _other_system(environ: Mapping[str, str]) -> Build:
    system = system_of(environ)
    if system is None:
        commit, branch = _git("rev-parse", "HEAD"), _git("branch", "--show-current")
        return Build(commit=commit, branch=branch, base_branch=_default_branch())
    return Build(
        commit=environ.get(system.commit) or _git("rev-parse", "HEAD"),
        branch=system.branch_of(environ) or _git("branch", "--show-current"),
        base_branch=system.base_branch_of(environ) or _default_branch(),
        pull_request=system.pull_request_of(environ),
        key=system.key_of(environ),
    )


def _default_branch() -> str | None:
    """Return the default branch, as far as this clone knows."""
    remote = _git("symbolic-ref", "--short", "refs/remotes/origin/HEAD")
    if remote is not None:
        return remote.removeprefix("origin/")
    # A CI system often fetches only the branch that it builds, without an origin/HEAD.
    for name in ("main", "master"):
        for reference in (f"refs/remotes/origin/{name}", f"refs/heads/{name}"):
            if _git("rev-parse", "--verify", "--quiet", reference) is not None:
                return name
    return None


def _github(environ: Mapping[str, str]) -> Build:
    event = _event(environ)
    pull = _nested(event, "pull_request")
    head, base = _nested(pull, "head"), _nested(pull, "base")
    is_fork = _nested(head, "repo").get("full_name") != _nested(base, "repo").get("full_name")
    names = (environ.get("GITHUB_REPOSITORY"), environ.get("GITHUB_RUN_ID"))
    return Build(
        system=GITHUB,
        commit=head.get("sha") or environ.get("GITHUB_SHA"),
        branch=(head.get("label") if is_fork else head.get("ref"))
        or environ.get("GITHUB_HEAD_REF")
        or environ.get("GITHUB_REF_NAME"),
        base_branch=base.get("ref")
        or environ.get("GITHUB_BASE_REF")
        or _nested(event, "repository").get("default_branch"),
        pull_request=pull.get("number"),
        key=" ".join(["github", *(name or "" for name in names)]),
    )


def _event(environ: Mapping[str, str]) -> Mapping[str, Any]:
    try:
        event = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_text(encoding="utf-8"))
    except (KeyError, OSError, ValueError):
        return {}
    return event if isinstance(event, dict) else {}


def _nested(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


def _gitlab(environ: Mapping[str, str]) -> Build:
    branch = environ.get("CI_MERGE_REQUEST_SOURCE_BRANCH_NAME") or environ.get("CI_COMMIT_REF_NAME")
    source = environ.get("CI_MERGE_REQUEST_SOURCE_PROJECT_PATH")
    if branch and source and source != environ.get("CI_MERGE_REQUEST_PROJECT_PATH"):
        branch = f"{source.partition('/')[0]}:{branch}"
    number = environ.get("CI_MERGE_REQUEST_IID", "")
    return Build(
        system=GITLAB,
        commit=environ.get("CI_COMMIT_SHA"),
        branch=branch,
        base_branch=environ.get("CI_MERGE_REQUEST_TARGET_BRANCH_NAME")
        or environ.get("CI_DEFAULT_BRANCH"),
        pull_request=int(number) if number.isdecimal() else None,
        # A retried job has another URL in the same pipeline.
        key=" ".join(["gitlab", *(environ.get(name, "") for name in _GITLAB_PIPELINE)]),
    )


def _git(*arguments: str) -> str | None:
    try:
        process = subprocess.run(
            ["git", *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip() or None if process.returncode == 0 else None
