"""The process that computes fits: reads tasks from a connection, answers, ends with its parent."""

import os
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Final, TypeAlias

from app.domain.fits import FitProblem
from app.services.computing import FitRefusedError, FitTask, compute_fit
from app.services.fit_messages import Done, Message, Progress, Refused

_FromFitter: TypeAlias = "Connection[Message, FitTask]"
_NICENESS: Final = 10
"""Fits give way to forecasts on the same machine."""


def _receive(connection: _FromFitter, tasks: SimpleQueue[FitTask]) -> None:
    while True:
        try:
            tasks.put(connection.recv())
        except (EOFError, OSError):
            # The fitter is gone, be it by kill -9: nobody waits for what is being computed.
            os._exit(0)


def _answer(task: FitTask, connection: _FromFitter) -> Done | Refused:
    def tell(share: float, step: str) -> None:
        connection.send(Progress(share, step))

    try:
        return Done(compute_fit(task, tell))
    except FitRefusedError as refusal:
        return Refused(refusal.problem)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever went wrong is told to the fitter
        detail = f"The computation failed unexpectedly: {type(error).__name__}: {error}"
        return Refused(FitProblem("internal", detail), traceback.format_exc())


def main() -> None:
    """Compute the tasks of the connection whose file descriptor is the first argument."""
    os.nice(_NICENESS)
    connection: _FromFitter = Connection(int(sys.argv[1]))
    tasks: SimpleQueue[FitTask] = SimpleQueue()
    threading.Thread(target=_receive, args=(connection, tasks), daemon=True).start()
    while True:
        connection.send(_answer(tasks.get(), connection))


if __name__ == "__main__":
    main()
