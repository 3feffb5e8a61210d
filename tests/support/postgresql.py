"""Runs a command beside a PostgreSQL server of its own, which ends with it.

    python tests/support/postgresql.py pytest -n 2

The server listens on a free port of 127.0.0.1, keeps its data in a scratch folder, and its URL
is in `TRAINFARE_TEST_POSTGRESQL_URL`. A URL that is set already is used as it is.
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
_MISSING = """\
PostgreSQL's server was not found. Install it (Debian: apt-get install postgresql; macOS:
brew install postgresql), or name a superuser's URL of a running one in
TRAINFARE_TEST_POSTGRESQL_URL; `make unit` tests with SQLite alone."""


def _binaries() -> Path | None:
    found = shutil.which("initdb")
    if found and (Path(found).resolve().parent / "postgres").exists():
        return Path(found).resolve().parent
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = sorted(versions, key=lambda path: float(path.parts[-3]))
    return newest[-1].parent if newest else None


def _install() -> None:
    """Install Debian's server where that is possible without asking."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        sys.exit(_MISSING)
    print("Installing PostgreSQL ...", file=sys.stderr)  # noqa: T201 - a script that speaks
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", "postgresql"]):
        subprocess.run(["apt-get", *arguments], check=True, env=environment, stdout=sys.stderr)


def _owner() -> str | None:
    """Return who runs the server: root must not."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _server() -> Iterator[str]:
    binaries = _binaries()
    if binaries is None:
        _install()
        binaries = _binaries()
        assert binaries is not None
    owner, port = _owner(), _free_port()
    folder = Path(tempfile.mkdtemp(prefix="trainfare-postgresql-"))
    log = folder / "log"
    with log.open("wb") as output:
        if owner is not None:
            shutil.chown(folder, owner)
        try:
            process = _start(binaries, folder, port, owner, output.fileno())
            try:
                _wait(binaries, process, port, log)
                yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
            finally:
                process.send_signal(signal.SIGINT)
                process.wait(_STOP_TIMEOUT_S)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _start(
    binaries: Path, folder: Path, port: int, owner: str | None, output: int
) -> subprocess.Popen[bytes]:
    data = str(folder / "data")
    initdb = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run(
        [str(binaries / "initdb"), *initdb], check=True, user=owner, cwd=folder, stdout=output
    )
    options = {
        "listen_addresses": "127.0.0.1",
        "port": str(port),
        "unix_socket_directories": str(folder),
        "max_connections": "200",
        "fsync": "off",
        "full_page_writes": "off",
        "synchronous_commit": "off",
    }
    arguments = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    # A session of its own: Ctrl-C ends the tests first, and the server after them.
    return subprocess.Popen(
        [str(binaries / "postgres"), "-D", data, *arguments],
        user=owner,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )


def _wait(binaries: Path, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    command = [str(binaries / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    deadline = time.monotonic() + _START_TIMEOUT_S
    while subprocess.run(command, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > deadline:
            sys.exit(f"PostgreSQL did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.1)


def _run(command: Sequence[str], url: str) -> int:
    return subprocess.run(command, check=False, env={**os.environ, _VARIABLE: url}).returncode


def main() -> None:
    """Run the command that the arguments name."""
    # An end by SIGTERM unwinds like Ctrl-C, so that the server is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    command = sys.argv[1:]
    if os.environ.get(_VARIABLE):
        sys.exit(_run(command, os.environ[_VARIABLE]))
    with _server() as url:
        exit_code = _run(command, url)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
