"""When the garbage collector of a web process rests: while it starts, and over what then stays.

A start makes some hundred thousand objects that live as long as the process. The collector would
walk through them again and again, which takes a fifth of the start, and later of large uploads.
"""

import gc
from typing import Final

_COLLECT_AFTER: Final = 200_000
"""New objects before the collector looks for cycles; an answer leaves none, a refusal neither.

A batch of ten thousand is half as many, all of which are in use where it would look.
"""


def rest() -> None:
    """Collect nothing until `settle`."""
    gc.disable()


def settle() -> None:
    """Take what there is for what stays, and collect what comes."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER, *gc.get_threshold()[1:])
    gc.enable()
