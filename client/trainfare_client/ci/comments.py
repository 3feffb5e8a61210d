"""Writes a report's comment on a pull request, or edits the existing one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from trainfare_client.ci.builds import GITHUB, GITLAB
from trainfare_client.errors import TrainfareError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx

    from trainfare_client.ci.builds import Build

MARKER: Final = "<!-- trainfare:ci "
_PER_PAGE: Final = 100
_MAX_PAGES: Final = 50
_TIMEOUT_S: Final = 20.0


class CommentError(TrainfareError):
    """The comment could be neither written nor edited."""


@dataclass(frozen=True)
class Thread:
    """The comments of one pull request, as offered by the forge's API.

    Attributes
    ----------
    comments
        Address that lists comments and takes new ones.
    comment
        Address of a single one, without its id.
    edit
        The method that replaces a comment.
    headers
        The headers that authorise.
    """

    comments: str
    comment: str
    edit: str
    headers: Mapping[str, str] = field(repr=False)


def thread_of(build: Build, environ: Mapping[str, str] = os.environ) -> Thread | None:
    """Return where the comment goes; None without a pull request or a token.

    GitHub: `GITHUB_TOKEN`, `GITHUB_API_URL`, `GITHUB_REPOSITORY`. GitLab: `GITLAB_TOKEN`,
    `CI_API_V4_URL`, `CI_PROJECT_ID` (a job's own token may not write notes).
    """
    if build.pull_request is None:
        return None
    if build.system == GITHUB and environ.get("GITHUB_TOKEN"):
        api = environ.get("GITHUB_API_URL") or "https://api.github.com"
        issues = f"{api}/repos/{environ.get('GITHUB_REPOSITORY', '')}/issues"
        return Thread(
            comments=f"{issues}/{build.pull_request}/comments",
            comment=f"{issues}/comments",
            edit="PATCH",
            headers={
                "Authorization": f"Bearer {environ['GITHUB_TOKEN']}",
                "Accept": "application/vnd.github+json",
            },
        )
    if build.system == GITLAB and environ.get("GITLAB_TOKEN"):
        api = environ.get("CI_API_V4_URL") or "https://gitlab.com/api/v4"
        project = quote(environ.get("CI_PROJECT_ID", ""), safe="")
        notes = f"{api}/projects/{project}/merge_requests/{build.pull_request}/notes"
        return Thread(notes, notes, "PUT", {"PRIVATE-TOKEN": environ["GITLAB_TOKEN"]})
    return None


def post_comment(thread: Thread, markdown: str) -> str:
    """Write a comment in place of the earlier one with the same hidden marker; say which.

    Parameters
    ----------
    thread
        Where it goes.
    markdown
        The comment, whose first line is the marker.

    Returns
    -------
    str
        `written` or `edited`.

    Raises
    ------
    CommentError
        If the forge does not answer or refuses.
    """
    import httpx  # noqa: PLC0415 - loaded when it is used

    marker = markdown.partition("\n")[0].strip()
    try:
        with httpx.Client(headers=thread.headers, timeout=_TIMEOUT_S) as forge:
            comment_id = _find(forge, thread, marker)
            if comment_id is None:
                forge.post(thread.comments, json={"body": markdown}).raise_for_status()
                return "written"
            url = f"{thread.comment}/{comment_id}"
            forge.request(thread.edit, url, json={"body": markdown}).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise CommentError(
            f"The comment could not be written: {error}.",
            "The token needs permission to write comments on pull requests.",
        ) from error
    return "edited"


def _find(forge: httpx.Client, thread: Thread, marker: str) -> int | None:
    """Return the id of the first comment that starts with the marker."""
    for comment in _comments(forge, thread):
        if str(comment.get("body") or "").lstrip().startswith(marker):
            return int(comment["id"])
    return None


def _comments(forge: httpx.Client, thread: Thread) -> Iterator[Mapping[str, Any]]:
    for page in range(1, _MAX_PAGES + 1):
        answer = forge.get(thread.comments, params={"per_page": _PER_PAGE, "page": page})
        comments = answer.raise_for_status().json()
        yield from comments
        if len(comments) < _PER_PAGE:
            return
