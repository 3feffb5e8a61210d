"""Tunes a web process's garbage collector: off during start-up, and blind to start-up objects.

Start-up creates some hundred thousand objects that live as long as the process. Scanning them again
and again would take a fifth of the start-up time, and later of large uploads.
"""

import gc
from typing import Final

_COLLECT_AFTER: Final = 200_000
"""New objects before the collector looks for cycles; answers and refusals create none.

A batch of ten thousand entries creates half as many, which are all still in use.
"""


def rest() -> None:
    """Disable the collector until `settle`."""
    gc.disable()


def settle() -> None:
    """Exempt all existing objects from collection, and enable it for new ones."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    gc.enable()
