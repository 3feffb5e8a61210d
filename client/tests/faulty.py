"""A server that fails in the ways services fail, as its script tells it."""

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from typing_extensions import override

GOOD = (
    b'{"created":1,"duplicates":0,"dry_run":false,"runs":[],"invalid":[],"invalid_count":0,'
    b'"warnings":[]}'
)


@dataclass
class Answer:
    """One answer; `silence` holds it back until the server stops."""

    status: int = 200
    body: bytes = GOOD
    headers: dict[str, str] = field(default_factory=dict)
    silence: bool = False


@dataclass
class FaultyServer:
    """Answers requests by its script, whose last answer repeats, and remembers what it heard."""

    url: str
    script: list[Answer]
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    was_called: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)

    def next_answer(self) -> Answer:
        """Return the answer to the latest request."""
        return self.script[min(len(self.requests), len(self.script)) - 1]


def problem(status: int, code: str, **more: str) -> Answer:
    """Return an answer with a problem."""
    body = f'{{"status":{status},"code":"{code}","title":"T","detail":"D","remedy":"Do so."}}'
    return Answer(status, body.encode(), {"Content-Type": "application/problem+json", **more})


@contextlib.contextmanager
def faulty_server(*script: Answer) -> Iterator[FaultyServer]:
    """Yield a server on a free port of 127.0.0.1 that follows a script."""

    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            length = int(self.headers.get("content-length", 0))
            body = self.rfile.read(length)
            state.requests.append((self.command, self.path, dict(self.headers.items()), body))
            state.was_called.set()
            answer = state.next_answer()
            if answer.silence:
                state.stopped.wait(30)
            with contextlib.suppress(OSError):
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

        do_DELETE = do_GET = do_POST = _respond  # noqa: N815 - http.server's names

        @override
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = FaultyServer(f"http://127.0.0.1:{server.server_port}", list(script))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield state
    finally:
        state.stopped.set()
        server.shutdown()
        server.server_close()
        thread.join()
