"""A process beside the training that reports a run when the training is killed.

After SIGKILL a process can report nothing, whoever sent it: a scheduler, a person, the kernel for
lack of memory. The witness holds the other end of a pipe: if that closes before the training
said that it had ended, the run has failed, and the witness delivers it.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from trainfare_client.collectors.outcomes import FAILED, OUT_OF_MEMORY
from trainfare_client.errors import TrainfareError
from trainfare_client.requests import encoded

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainfare_client.documents import MeasuredRun
    from trainfare_client.settings import ClientSettings

_DONE: Final = b"done\n"
_POLL_S: Final = 1.0
_DISMISSAL_S: Final = 5.0
_KERNEL_COUNTERS: Final = Path("/proc/vmstat")


class Witness:
    """The training's end of the pipe; POSIX only, elsewhere nothing is started."""

    def __init__(self, run: MeasuredRun, settings: ClientSettings, *, quiet: bool) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if os.name != "posix":
            return
        settings_document = {**vars(settings), "spool": str(settings.spool.absolute())}
        message = encoded({"run": run, "settings": settings_document, "quiet": quiet})
        # In a session of its own, which outlives the end of the training's process group.
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env=_environment(),
        )
        self._write(message + b"\n")

    def dismiss(self, patience_s: float = _DISMISSAL_S) -> None:
        """Tell the witness that the training itself reports how it ended.

        A witness that has not begun to listen after ``patience_s`` seconds, as on a fully loaded
        machine, is killed: it is no longer needed.
        """
        process, self._process = self._process, None
        if process is None or process.stdin is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.write(_DONE)
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _write(self, line: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()


def _environment() -> dict[str, str]:
    """Return an environment in which this package is found as it was here."""
    here = str(Path(__file__).parents[2])
    paths = [here, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}


def kernel_kills(counters: Path = _KERNEL_COUNTERS) -> int:
    """Return how many processes the kernel has killed for lack of memory, 0 if it does not say."""
    try:
        lines = counters.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def watch(pipe: BinaryIO, kills: Callable[[], int] = kernel_kills) -> tuple[bytes, bool]:
    """Return what the training said before its pipe closed, and whether memory ran out.

    The kernel's count is read repeatedly: a kill is attributed to this end only if it came in the
    last moments.
    """
    received, before = b"", (kills(), kills())
    while True:
        if not select.select([pipe], [], [], _POLL_S)[0]:
            before = (before[1], kills())
            continue
        chunk = os.read(pipe.fileno(), 65536)
        if not chunk:
            return received, kills() > before[0]
        received += chunk


def report_run(message: bytes, *, ran_out_of_memory: bool, duration_s: float) -> str | None:
    """Deliver the run of a killed training; return a sentence, None if the training had ended."""
    from trainfare_client.collectors.delivering import Delivery
    from trainfare_client.settings import ClientSettings

    document_line, _, trailer = message.partition(b"\n")
    if not document_line or trailer.endswith(_DONE):
        return None
    document: dict[str, Any] = json.loads(document_line)
    run = document["run"]
    run["status"] = OUT_OF_MEMORY if ran_out_of_memory else FAILED
    run["duration_seconds"] = duration_s
    settings = document["settings"]
    client_settings = ClientSettings(**{**settings, "spool": Path(settings["spool"])})
    delivery = Delivery(run, client_settings, is_shared=True)
    delivery.upload()
    text = delivery.settle()
    return None if document["quiet"] else text


def main() -> None:
    """Detach from the training, listen, and report once it no longer can."""
    # Ray kills the children of a worker that it kills.
    if os.fork():
        os._exit(0)
    started_at = time.perf_counter()
    message, ran_out_of_memory = watch(sys.stdin.buffer)
    duration_s = time.perf_counter() - started_at
    try:
        text = report_run(message, ran_out_of_memory=ran_out_of_memory, duration_s=duration_s)
    except TrainfareError as error:
        text = f"Trainfare: {error}"
    if text:
        sys.stderr.write(text + "\n")


if __name__ == "__main__":
    main()
