"""Runs the web processes: checks their exposure, binds the address, serves requests."""

import errno
import logging
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Final, NoReturn

import uvicorn
from typing_extensions import override

from app.cli.failures import RefusedError
from app.cli.logs import configure_logging, log_config
from app.cli.processes import garbage
from app.cli.processes.direct_protocol import DirectProtocol
from app.cli.processes.ending import end_on_hangup
from app.cli.processes.several import WebProcesses
from app.cli.processes.web import build, build_among_several
from app.cli.surroundings import open_current_context
from app.domain.addresses import is_loopback
from app.services.access import AccessService, keys_required
from app.services.context import ServiceContext
from app.settings import Settings
from app.telemetry import exporting

_logger = logging.getLogger(__name__)
GRACE_S: Final = 10
"""Time for pending requests to end; recorded forecasts are written after that."""

_START_S: Final = 60
"""Time limit for a web process's health check: on a busy machine imports take many seconds."""
_KEEP_ALIVE_S: Final = 75
"""Time for which a connection may be idle: longer than load balancers keep theirs (a minute).

One that sends a request just as its connection is closed answers its caller by 502."""

_BACKLOG: Final = 2048
_OPEN_FILES: Final = 65_536
_PORT_REMEDIES: Final[dict[int | None, str]] = {
    errno.EADDRINUSE: "End what listens there, or choose another --port (0: any free one).",
    errno.EACCES: "Choose a --port that any user may listen on: 1024 or above, or 0: any free one.",
}
_HOST_REMEDY: Final = (
    "Name an address of this machine with --host (TRAINFARE_HOST); 0.0.0.0 stands for all of them."
)


def check_exposure(settings: Settings, access: AccessService) -> None:
    """Refuse to listen beyond this machine without keys, unless explicitly allowed."""
    is_exposed = not is_loopback(settings.host)
    if not keys_required(settings):
        if is_exposed or settings.oidc_issuer is not None:
            _logger.warning("listening without keys: whoever reaches the address may do everything")
        return
    if not is_exposed:
        return
    if not access.has_usable_key():
        raise RefusedError(
            f"No usable API key exists and {settings.host} is not a loopback address.",
            "Create a key (`trainfare keys create --name admin --scope admin`), listen on"
            " 127.0.0.1, or pass --insecure (TRAINFARE_REQUIRE_KEYS=false).",
        )


def require_callers(settings: Settings, context: ServiceContext) -> None:
    """Refuse as `check_exposure` does, by the keys in a migrated database."""
    access = AccessService(context)
    try:
        check_exposure(settings, access)
    finally:
        access.close()


def _check_start(settings: Settings) -> None:
    with open_current_context(settings) as context:
        # Reports an invalid trace exporter once, instead of in each web process.
        with exporting(settings):
            pass
        require_callers(settings, context)


def allow_connections() -> None:
    """Raise the limit of open files: each connection takes one.

    The default is often 1,024; at the limit, no file can be opened either.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def _listen(settings: Settings) -> tuple[socket.socket, str]:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    address = (settings.host, settings.port)
    try:
        # Listens before the application is up: callers wait instead of being refused.
        server_socket = socket.create_server(address, family=family, backlog=_BACKLOG)
    except (OSError, UnicodeError) as error:
        # An invalid host name fails while it is encoded.
        reason = getattr(error, "strerror", None) or error
        remedy = _PORT_REMEDIES.get(getattr(error, "errno", None), _HOST_REMEDY)
        raise RefusedError(
            f"Cannot listen on {settings.host}:{settings.port}: {reason}.", remedy
        ) from error
    server_socket.set_inheritable(True)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return server_socket, f"http://{host}:{server_socket.getsockname()[1]}"


class _Server(uvicorn.Server):
    """Shuts down cleanly however many signals it gets, as several web processes do."""

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note that the process must end."""
        super().handle_exit(sig, frame)
        # A forced exit would lose recorded forecasts and leave pending requests unanswered.
        self.force_exit = False


def serve(settings: Settings, *, access_log: bool = False) -> None:
    """Answer requests until a signal ends the process."""
    configure_logging(settings)
    allow_connections()
    _check_start(settings)
    with _metrics_folder(settings) as siblings:
        _serve(settings, siblings, access_log=access_log)


@contextmanager
def _metrics_folder(settings: Settings) -> Iterator[Path | None]:
    """Create a folder in which several web processes share their metrics."""
    if settings.web_workers == 1:
        yield None
        return
    try:
        folder = TemporaryDirectory(prefix="trainfare-")
    except OSError as error:
        _logger.warning(
            "no folder for temporary files: each answer of /metrics covers one web process",
            extra={"reason": str(error)},
        )
        yield None
        return
    with folder as path:
        yield Path(path)


def _serve(settings: Settings, siblings: Path | None, *, access_log: bool) -> None:
    is_several = settings.web_workers > 1
    config = uvicorn.Config(
        partial(build_among_several if is_several else build, settings, siblings),
        factory=True,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http=DirectProtocol,
        ws="none",
        workers=settings.web_workers,
        access_log=access_log,
        log_config=log_config(settings),
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
        timeout_worker_healthcheck=_START_S,
    )
    # Uvicorn raises the signal again after a clean shutdown: exit successfully then.
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    end_on_hangup()
    server_socket, url = _listen(settings)
    _logger.info("listening", extra={"url": url, "web_workers": settings.web_workers})
    try:
        if is_several:
            garbage.settle()
            WebProcesses(config, server_socket).run()
        else:
            _Server(config).run(sockets=[server_socket])
    finally:
        _logger.info("stopped", extra={"url": url})
