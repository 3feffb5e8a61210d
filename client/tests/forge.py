"""A small forge: the comments of pull requests as the APIs of GitHub and GitLab keep them."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

_GITHUB_LIST = re.compile(r"/repos/ada/nets/issues/(\d+)/comments")
_GITHUB_ONE = re.compile(r"/repos/ada/nets/issues/comments/(\d+)")
_GITLAB_LIST = re.compile(r"/projects/(?:42)/merge_requests/(\d+)/notes")
_GITLAB_ONE = re.compile(r"/projects/(?:42)/merge_requests/\d+/notes/(\d+)")


@dataclass
class Forge:
    """The comments by id, each with the number of its pull request, and who came."""

    url: str
    token: str
    comments: dict[int, tuple[int, str]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def write(self, number: int, body: str) -> int:
        """Add a comment of a pull request."""
        key = 1000 + len(self.comments)
        self.comments[key] = (number, body)
        return key

    def bodies(self, number: int) -> list[str]:
        """Return the comments of a pull request, the oldest first."""
        return [body for of, body in self.comments.values() if of == number]


class _Handler(BaseHTTPRequestHandler):
    forge: Forge

    def _respond(self) -> None:
        length = int(self.headers.get("content-length", 0))
        body = json.loads(self.rfile.read(length) or b"{}")
        target = urlsplit(self.path)
        self.forge.requests.append(f"{self.command} {target.path}")
        token: str = self.headers.get("private-token", self.headers.get("authorization", ""))
        if token.removeprefix("Bearer ") != self.forge.token:
            self._answer(403, {"message": "Resource not accessible"})
            return
        answer = self._list(target.path, target.query, body) or self._one(target.path, body)
        self._answer(*(answer or (404, {"message": "Not Found"})))

    def _list(self, path: str, query: str, body: dict[str, str]) -> tuple[int, object] | None:
        match = _GITHUB_LIST.fullmatch(path) or _GITLAB_LIST.fullmatch(path)
        if match is None:
            return None
        if self.command == "GET":
            return 200, self._page(int(match[1]), parse_qs(query))
        return 201, {"id": self.forge.write(int(match[1]), body["body"])}

    def _one(self, path: str, body: dict[str, str]) -> tuple[int, object] | None:
        by_method = {"PATCH": _GITHUB_ONE, "PUT": _GITLAB_ONE}
        match = by_method[self.command].fullmatch(path)
        if match is None or int(match[1]) not in self.forge.comments:
            return None
        number, _ = self.forge.comments[int(match[1])]
        self.forge.comments[int(match[1])] = (number, body["body"])
        return 200, {"id": int(match[1])}

    def _page(self, number: int, query: dict[str, list[str]]) -> list[dict[str, object]]:
        size, page = int(query["per_page"][0]), int(query["page"][0])
        comments = [
            {"id": key, "body": body}
            for key, (of, body) in self.forge.comments.items()
            if of == number
        ]
        return comments[(page - 1) * size : page * size]

    def _answer(self, status: int, document: object) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PATCH = do_PUT = _respond  # noqa: N815 - http.server's names

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def running_forge(token: str = "secret-of-the-build") -> Iterator[Forge]:
    """Yield a forge on a free port of 127.0.0.1 that takes one token."""

    class Handler(_Handler):
        """Serves the forge that is yielded."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    forge = Handler.forge = Forge(f"http://127.0.0.1:{server.server_port}", token)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield forge
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
