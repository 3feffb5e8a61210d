"""Runs service and fitter side by side: one signal ends both, a dead fitter is restarted."""

import logging
import subprocess
import threading
import time
from typing import Final

import orjson

from app.cli.failures import RefusedError
from app.cli.logs import configure_logging
from app.cli.processes.ending import termination_event
from app.cli.processes.pauses import FIRST_PAUSE_S, Pauses
from app.cli.processes.room import no_room
from app.cli.surroundings import require_database
from app.domain.own_modules import module_command, module_environment
from app.settings import Settings

_logger = logging.getLogger(__name__)
_GRACE_S: Final = 25.0
"""Time for both to end; each forces its own end sooner, whatever it waits for."""

_POLL_INTERVAL_S: Final = 0.2


def environment_of(settings: Settings) -> dict[str, str]:
    """Return an environment that gives a child exactly these settings; lists and maps as JSON."""
    values = settings.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    variables = {
        f"TRAINFARE_{name.upper()}": value
        if isinstance(value, str)
        else orjson.dumps(value).decode()
        for name, value in values.items()
    }
    return {**module_environment(), **variables}


class Child:
    """A child process; its standard input closes when this process dies."""

    def __init__(self, name: str, settings: Settings, *arguments: str) -> None:
        self._name = name
        self._command = module_command("app.cli", *arguments, "--supervised")
        self._environment = environment_of(settings)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        try:
            # In its own session: Ctrl-C reaches only this process, which ends its children once.
            process = subprocess.Popen(  # noqa: S603 - our own interpreter and arguments
                self._command, env=self._environment, stdin=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            raise no_room(self._name, error) from error
        self.started_at = time.monotonic()
        _logger.info("started", extra={"child": self._name, "pid": process.pid})
        return process

    def restart(self) -> None:
        """Start another process with the same command.

        Raises
        ------
        RefusedError
            If the machine has no room for it.
        """
        self.process = self._start()

    def end(self) -> None:
        """Tell the process to end, if it runs."""
        self.process.terminate()

    def wait(self, until: float) -> int:
        """Return the exit code; a process that still runs at `until` (monotonic) is killed."""
        try:
            return self.process.wait(max(until - time.monotonic(), 0.0))
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


def serve_with_fitter(settings: Settings, *, access_log: bool) -> None:
    """Run both until a signal arrives or the service dies.

    Raises
    ------
    RefusedError
        If there is no database, either cannot be started, or the service ended by itself.
    """
    configure_logging(settings)
    require_database(settings)
    with termination_event() as stop:
        _run(settings, stop, access_log=access_log)


def _run(settings: Settings, stop: threading.Event, *, access_log: bool) -> None:
    service = Child("service", settings, "serve", *(["--access-log"] if access_log else []))
    children = [service]
    try:
        fitter = Child("fitter", settings, "fitter")
        children.append(fitter)
        watch(service, fitter, stop)
    finally:
        for child in children:
            child.end()
        deadline = time.monotonic() + _GRACE_S
        exit_codes = [child.wait(deadline) for child in children]
    if not stop.is_set():
        raise RefusedError(
            f"The service ended by itself with exit code {exit_codes[0]}.", "See its log above."
        )


def watch(
    service: Child, fitter: Child, stop: threading.Event, *, pause_s: float = FIRST_PAUSE_S
) -> None:
    """Restart the fitter whenever it dies; return when `stop` is set or the service has ended.

    Parameters
    ----------
    service, fitter
        The children.
    stop
        Set when both shall end.
    pause_s
        Seconds before the first restart; further ones come later, as `Pauses` says.
    """
    pauses = Pauses(pause_s)
    restart_at: float | None = None
    while service.process.poll() is None and not stop.wait(_POLL_INTERVAL_S):
        exit_code = fitter.process.poll()
        if exit_code is None:
            continue
        now = time.monotonic()
        if restart_at is None:
            pause_s = pauses.next_s(ran_s=now - fitter.started_at)
            _logger.error("fitter died", extra={"exit_code": exit_code, "restart_in_s": pause_s})
            restart_at = now + pause_s
        elif now >= restart_at:
            pause_s = _restart(fitter, pauses)
            restart_at = now + pause_s if pause_s else None


def _restart(fitter: Child, pauses: Pauses) -> float:
    """Restart the fitter; if the machine has no room for it, log that and return a pause."""
    try:
        fitter.restart()
    except RefusedError as error:
        pause_s = pauses.next_s(ran_s=0.0)
        _logger.error("%s %s", error, error.remedy, extra={"restart_in_s": pause_s})  # noqa: TRY400
        return pause_s
    return 0.0
