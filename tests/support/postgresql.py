"""Runs a command with its own PostgreSQL server, which ends with it.

    python tests/support/postgresql.py pytest -n 2

The server listens on a free port of 127.0.0.1 and keeps its data in a temporary folder, in memory
where there is room; its URL is in `TRAINFARE_TEST_POSTGRESQL_URL`. If that is already set, no
server is started.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

_VARIABLE = "TRAINFARE_TEST_POSTGRESQL_URL"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 30.0
_MEMORY = Path("/dev/shm")
_ROOM_BYTES = 2 << 30
_MISSING = """\
PostgreSQL's server was not found. Install it (Debian: apt-get install postgresql; macOS:
brew install postgresql), or name a superuser's URL of a running one in
TRAINFARE_TEST_POSTGRESQL_URL; `make unit` tests with SQLite alone."""


def _binaries() -> Path | None:
    initdb = shutil.which("initdb")
    if initdb and (Path(initdb).resolve().parent / "postgres").exists():
        return Path(initdb).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(versions, key=lambda path: float(path.parts[-3]))
    return newest[-1].parent if newest else None


def _install() -> None:
    """Install Debian's server if this is possible without interaction."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(_MISSING)
    print("Installing PostgreSQL ...", file=sys.stderr)  # noqa: T201 - output of a script
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "postgresql"]):
        subprocess.run(["apt-get", *arguments], check=True, env=environment, stdout=sys.stderr)


def _owner() -> str | None:
    """Return the user to run the server as, since root may not; None: the current one."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def folder_in_memory() -> Path | None:
    """Return where files of tests lie in memory, None if they cannot.

    On a disk, the copy of a database takes ten times the computing time. In containers, the folder
    is often small, or nothing in it can be executed, which some tests need.
    """
    try:
        folder = os.statvfs(_MEMORY)
    except OSError:
        return None
    has_room = folder.f_bavail * folder.f_frsize >= _ROOM_BYTES
    runs_programs = not folder.f_flag & os.ST_NOEXEC
    is_suitable = has_room and runs_programs and os.access(_MEMORY, os.W_OK)
    return _MEMORY if is_suitable else None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class PostgreSQLServer:
    """A PostgreSQL server in a temporary folder, on a fixed free port.

    Parameters
    ----------
    synchronous_commit
        Whether commits are acknowledged only once they survive kill -9.
    parent
        Where the temporary folder is created; default: in memory if there is room, else the
        system's location.
    """

    def __init__(self, *, synchronous_commit: bool = False, parent: Path | None = None) -> None:
        self._binaries = _find_or_install()
        self._owner, self._port = _owner(), _free_port()
        self._folder = Path(
            tempfile.mkdtemp(prefix="trainfare-postgresql-", dir=parent or folder_in_memory())
        )
        self._log = self._folder / "log"
        self._synchronous_commit = synchronous_commit
        self._process: subprocess.Popen[bytes] | None = None
        if self._owner is not None:
            shutil.chown(self._folder, self._owner)
        self._initialize()

    @property
    def url(self) -> str:
        """The URL of a superuser."""
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self._port),
            "unix_socket_directories": str(self._folder),
            "max_connections": "200",
            "min_wal_size": "32MB",
            "max_wal_size": "256MB",
            "fsync": "off",
            "full_page_writes": "off",
            "synchronous_commit": "on" if self._synchronous_commit else "off",
        }
        arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        with self._log.open("ab") as output:
            # In its own session, so that Ctrl-C ends the tests first and the server after them.
            self._process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", str(self._folder / "data"), *arguments],
                user=self._owner,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._wait(self._process)

    def kill(self) -> None:
        """Kill the server and all its backends by SIGKILL."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_STOP_TIMEOUT_S)

    def revive(self) -> None:
        """Wait until the server answers; restart it if it has ended."""
        while not self._answers():
            assert self._process is not None
            if self._process.poll() is not None:
                self.start()
            time.sleep(0.1)

    def close(self) -> None:
        """Stop the server if it is running, and remove its folder."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(_STOP_TIMEOUT_S)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _initialize(self) -> None:
        arguments = ["-D", str(self._folder / "data"), "-U", "postgres", "-A", "trust"]
        with self._log.open("wb") as output:
            subprocess.run(
                [str(self._binaries / "initdb"), *arguments, "-E", "UTF8", "--locale=C", "-N"],
                check=True,
                user=self._owner,
                cwd=self._folder,
                stdout=output,
            )

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                log = self._log.read_text(errors="replace")
                sys.exit(f"PostgreSQL did not start:\n{log}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        command = [str(self._binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p"]
        return subprocess.run([*command, str(self._port)], check=False).returncode == 0


def _find_or_install() -> Path:
    binaries = _binaries()
    if binaries is None:
        _install()
        binaries = _binaries()
    assert binaries is not None
    return binaries


@contextlib.contextmanager
def running_postgresql(
    *, synchronous_commit: bool = False, parent: Path | None = None
) -> Iterator[PostgreSQLServer]:
    """Yield a running server that ends with the block."""
    server = PostgreSQLServer(synchronous_commit=synchronous_commit, parent=parent)
    try:
        server.start()
        yield server
    finally:
        server.close()


def _run(command: Sequence[str], url: str) -> int:
    return subprocess.run(command, check=False, env={**os.environ, _VARIABLE: url}).returncode


def main() -> None:
    """Run the command that the arguments name."""
    # SIGTERM unwinds the stack like Ctrl-C, so that the server is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    command = sys.argv[1:]
    if os.environ.get(_VARIABLE):
        sys.exit(_run(command, os.environ[_VARIABLE]))
    with running_postgresql() as server:
        exit_code = _run(command, server.url)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
