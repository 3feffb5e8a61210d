"""The variables by which CI systems other than GitHub and GitLab describe a build."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PREFIXES: Final = ("refs/heads/", "origin/")


@dataclass(frozen=True)
class System:
    """Names of variables; of several, the first one that is set counts.

    Attributes
    ----------
    mark
        Set only by this system.
    fork
        Names the owner of the fork that a pull request comes from, or says `True`.
    key
        Identify the build together.
    """

    mark: str
    commit: str
    branch: tuple[str, ...]
    base_branch: tuple[str, ...]
    pull_request: tuple[str, ...]
    key: tuple[str, ...]
    fork: str = ""

    def branch_of(self, environ: Mapping[str, str]) -> str | None:
        """Return the branch, prefixed with the owner of its fork."""
        branch = _branch(environ, self.branch)
        owner = environ.get(self.fork, "").partition("/")[0]
        if branch is None or owner.casefold() in {"", "false"}:
            return branch
        return f"{'fork' if owner.casefold() == 'true' else owner}:{branch}"

    def base_branch_of(self, environ: Mapping[str, str]) -> str | None:
        """Return the branch that a pull request goes into, or the default branch."""
        return _branch(environ, self.base_branch)

    def pull_request_of(self, environ: Mapping[str, str]) -> int | None:
        """Return the number of the pull request."""
        number = _first(environ, self.pull_request).rpartition("/")[2]
        return int(number) if number.isdecimal() else None

    def key_of(self, environ: Mapping[str, str]) -> str:
        """Return what identifies the build."""
        return " ".join([self.mark, *(environ.get(name, "") for name in self.key)])


_SYSTEMS: Final = (
    System(
        mark="JENKINS_URL",
        commit="GIT_COMMIT",
        # BRANCH_NAME of a pull request is `PR-17`; a single-branch job has only GIT_BRANCH.
        branch=("CHANGE_BRANCH", "BRANCH_NAME", "GIT_BRANCH"),
        base_branch=("CHANGE_TARGET",),
        pull_request=("CHANGE_ID",),
        key=("JENKINS_URL", "BUILD_TAG"),
        fork="CHANGE_FORK",
    ),
    System(
        mark="BUILDKITE",
        commit="BUILDKITE_COMMIT",
        branch=("BUILDKITE_BRANCH",),
        base_branch=("BUILDKITE_PULL_REQUEST_BASE_BRANCH", "BUILDKITE_PIPELINE_DEFAULT_BRANCH"),
        pull_request=("BUILDKITE_PULL_REQUEST",),
        key=("BUILDKITE_BUILD_ID",),
    ),
    System(
        mark="CIRCLECI",
        commit="CIRCLE_SHA1",
        branch=("CIRCLE_BRANCH",),
        base_branch=(),
        pull_request=("CIRCLE_PR_NUMBER", "CIRCLE_PULL_REQUEST"),
        key=("CIRCLE_WORKFLOW_ID",),
    ),
    System(
        mark="TF_BUILD",
        commit="BUILD_SOURCEVERSION",
        branch=("SYSTEM_PULLREQUEST_SOURCEBRANCH", "BUILD_SOURCEBRANCH"),
        base_branch=("SYSTEM_PULLREQUEST_TARGETBRANCH",),
        pull_request=("SYSTEM_PULLREQUEST_PULLREQUESTNUMBER", "SYSTEM_PULLREQUEST_PULLREQUESTID"),
        key=("SYSTEM_COLLECTIONURI", "BUILD_BUILDID"),
        fork="SYSTEM_PULLREQUEST_ISFORK",
    ),
)


def system_of(environ: Mapping[str, str]) -> System | None:
    """Return the system that the build runs on: Jenkins, Buildkite, CircleCI, Azure Pipelines."""
    return next((system for system in _SYSTEMS if environ.get(system.mark)), None)


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")


def _branch(environ: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    branch = _first(environ, names)
    for prefix in _PREFIXES:
        branch = branch.removeprefix(prefix)
    return branch or None
