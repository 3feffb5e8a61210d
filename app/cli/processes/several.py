"""Runs several web processes on one port, and starts another one for each that dies."""

import logging
import signal
import socket
import time

import uvicorn
from typing_extensions import override
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from app.cli.failures import RefusedError
from app.cli.processes.pauses import Pauses
from app.cli.processes.room import no_room

_logger = logging.getLogger(__name__)


class WebProcesses(Multiprocess):
    """Uvicorn's supervisor; it notices and logs each death at once, and paces the restarts.

    A process that cannot start, because the database is away for instance, would otherwise be
    replaced by the next one over and over.
    """

    def __init__(self, config: uvicorn.Config, server_socket: socket.socket) -> None:
        on_hangup = signal.getsignal(signal.SIGHUP)
        super().__init__(config, sockets=[server_socket])
        # Uvicorn's own handler would restart them all.
        signal.signal(signal.SIGHUP, on_hangup)
        self._pauses = Pauses()
        self._started_at = self._looks_at = time.monotonic()

    @override
    def run(self) -> None:
        """Run the processes until a signal arrives or one of them cannot start up.

        Raises
        ------
        RefusedError
            If one could not, or the machine has no room for them.
        """
        try:
            super().run()
        except OSError as error:
            # This process would wait for those that run when it ends, and heed no signal.
            self.terminate_all()
            self.join_all()
            raise no_room("web processes", error) from error
        if any(process.exitcode == STARTUP_FAILURE for process in self.processes):
            raise RefusedError("A web process cannot start up.", "See its log above.")

    @override
    def keep_subprocess_alive(self) -> None:
        """Replace the processes that have died, unless others just did or there is no room."""
        if time.monotonic() < self._looks_at:
            return
        for process in self.processes:
            # While this process has a copy of the other end, the pipe does not end with the child:
            # uvicorn would wait a minute for the answer of one that just died, and heed no signal.
            process.child_conn.close()
        before = self.processes.copy()
        refusal: RefusedError | None = None
        try:
            super().keep_subprocess_alive()
        except OSError as error:
            refusal = no_room("web process", error)
            _logger.error("%s %s", refusal, refusal.remedy)  # noqa: TRY400
        dead = [old for old, new in zip(before, self.processes, strict=True) if old is not new]
        for process in dead:
            details = {"pid": process.pid, "exit_code": process.exitcode}
            _logger.error("web process died; another is started", extra=details)
        if dead or refusal is not None:
            self._let_rest()

    def _let_rest(self) -> None:
        now = time.monotonic()
        self._looks_at = now + self._pauses.next_s(ran_s=now - self._started_at)
        self._started_at = now
