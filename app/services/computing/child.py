"""The process that computes fits: reads tasks from a connection, answers, ends with its parent."""

import os
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Final, TypeAlias

from app.services.computing.messages import Message, Progress, answer
from app.services.computing.task import FitTask

_FromFitter: TypeAlias = "Connection[Message, FitTask]"
NICENESS: Final = 14
"""Fits yield to forecasts on the same machine; at 10, some of these waited for a fit's slice."""


def _receive(connection: _FromFitter, tasks: SimpleQueue[FitTask]) -> None:
    while True:
        try:
            tasks.put(connection.recv())
        except (EOFError, OSError):
            # The fitter is gone, even by kill -9: nobody waits for the result.
            os._exit(0)
        except BaseException:  # noqa: BLE001 - memory that does not suffice, other versions
            # Without the task there is nothing to compute; the fitter sees that this process ends.
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)


def main() -> None:
    """Compute the tasks of the connection whose file descriptor is the first argument."""
    os.nice(NICENESS)
    connection: _FromFitter = Connection(int(sys.argv[1]))
    tasks: SimpleQueue[FitTask] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()

    def report(share: float, step: str) -> None:
        connection.send(Progress(share, step))

    # If the fitter is gone, even by kill -9, nobody waits for the answer.
    with suppress(ConnectionError):
        while True:
            connection.send(answer(tasks.get(), report))


if __name__ == "__main__":
    main()
