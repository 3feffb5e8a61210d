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
_LOOK_S: Final = 1.0
_FAREWELL_S: Final = 5.0
_KERNEL_COUNTERS: Final = Path("/proc/vmstat")


class Witness:
    """The training's end of the pipe; POSIX only, elsewhere nothing is started."""

    def __init__(self, run: MeasuredRun, settings: ClientSettings, *, quiet: bool = False) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if os.name != "posix":
            return
        told = {**vars(settings), "spool": str(settings.spool.absolute())}
        testimony = encoded({"run": run, "settings": told, "quiet": quiet})
        # In a session of its own, which outlives the end of the training's process group.
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            env=_environment(),
        )
        self._write(testimony + b"\n")

    def dismiss(self, patience_s: float = _FAREWELL_S) -> None:
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
    said, before = b"", (kills(), kills())
    while True:
        if not select.select([pipe], [], [], _LOOK_S)[0]:
            before = (before[1], kills())
            continue
        part = os.read(pipe.fileno(), 65536)
        if not part:
            return said, kills() > before[0]
        said += part


def tell_of(said: bytes, *, lacked_memory: bool, seconds: float) -> str | None:
    """Deliver the run of a killed training; return a sentence, None if the training had ended."""
    from trainfare_client.collectors.delivering import Delivery
    from trainfare_client.settings import ClientSettings

    first, _, rest = said.partition(b"\n")
    if not first or rest.endswith(_DONE):
        return None
    testimony: dict[str, Any] = json.loads(first)
    run = testimony["run"]
    run["status"] = OUT_OF_MEMORY if lacked_memory else FAILED
    run["duration_seconds"] = seconds
    settings = testimony["settings"]
    known = ClientSettings(**{**settings, "spool": Path(settings["spool"])})
    delivery = Delivery(run, known, is_shared=True)
    delivery.upload()
    told = delivery.settle()
    return None if testimony["quiet"] else told


def main() -> None:
    """Detach from the training, listen, and report once it no longer can."""
    # Ray kills the children of a worker that it kills.
    if os.fork():
        os._exit(0)
    begun = time.perf_counter()
    said, lacked_memory = watch(sys.stdin.buffer)
    seconds = time.perf_counter() - begun
    try:
        told = tell_of(said, lacked_memory=lacked_memory, seconds=seconds)
    except TrainfareError as error:
        told = f"Trainfare: {error}"
    if told:
        sys.stderr.write(told + "\n")


if __name__ == "__main__":
    main()
