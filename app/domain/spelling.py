"""Which known name a misspelled one most likely means."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest_field(name: str, known: Iterable[str]) -> str | None:
    """Return the known field that `name` most likely means ("batchsize" -> "batch_size").

    Examples
    --------
    >>> nearest_field("batchsize", ["batch_size", "epochs"])
    'batch_size'
    """
    squeezed = {field.replace("_", "").casefold(): field for field in known}
    match = get_close_matches(name.replace("_", "").replace("-", "").casefold(), squeezed, n=1)
    return squeezed[match[0]] if match else None
