"""Which known name a misspelled one most likely means."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest_field(name: str, known: Iterable[str]) -> str | None:
    """Return the known field that `name` most likely means ("batchsize" -> "batch_size").

    Of fields that begin with it as with a word, the shortest, and of these the first.

    Examples
    --------
    >>> nearest_field("batchsize", ["batch_size", "epochs"])
    'batch_size'
    >>> nearest_field("price", ["purchase", "price_per_hour"])
    'price_per_hour'
    >>> nearest_field("cost", ["cost_currency", "cost_usd"])
    'cost_usd'
    """
    squeezed = {field.replace("_", "").casefold(): field for field in known}
    asked = name.replace("_", "").replace("-", "").casefold()
    begun = [field for field in squeezed.values() if asked in _first_words(field)]
    if begun:
        return min(begun, key=len)
    match = get_close_matches(asked, squeezed, n=1)
    return squeezed[match[0]] if match else None


def _first_words(field: str) -> set[str]:
    """Return what a field begins with, up to each of its words but the last, squeezed."""
    words = field.casefold().split("_")
    return {"".join(words[:count]) for count in range(1, len(words))}
