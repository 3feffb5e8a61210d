"""Builds the application of one web process."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from fastapi import FastAPI

from app.cli import collecting
from app.cli.ending import end_within
from app.cli.orphans import end_with_parent
from app.domain.threads import ONE_THREAD
from app.settings import Settings

if TYPE_CHECKING:
    from types import ModuleType

_END_S: Final = 20.0
"""How long the end may take: answers under way first, then what is still to be written."""

_SWITCH_S: Final = 0.0005
"""How long a thread may compute before the loop that answers may go on: Python's own 5 ms are as
long as many answers take together."""


def build(settings: Settings, siblings: Path | None = None) -> FastAPI:
    """Return the application; the first thing that a process of several imports it by.

    `siblings` is the folder in which several web processes share what they count.
    """
    # Nobody else would: it would go on answering, and hold the address that a new start needs.
    end_with_parent()
    # Before numpy is imported: the products of one answer are small, and a second thread costs
    # them more than it saves. What the operator chose stays.
    for name, count in ONE_THREAD.items():
        os.environ.setdefault(name, count)
    collecting.rest()
    _leave_out_unused()
    sys.setswitchinterval(_SWITCH_S)
    from app.main import build_app

    app = build_app(settings, siblings=siblings)
    end_within(_END_S, app.state.services.context.stopping)
    collecting.settle()
    return app


def _leave_out_unused() -> None:
    """Keep FastAPI from importing pydantic's former API to ask whether a model is one of its.

    FastAPI takes the failing import for "no such models", which is true of ours.
    """
    # None is what the import system itself calls an import that is not to succeed.
    sys.modules.setdefault("pydantic.v1", cast("ModuleType", None))
