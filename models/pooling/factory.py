"""The factory prior: summaries of public workloads, shipped as plain numbers."""

import json
from functools import cache
from importlib.resources import files

from models.pooling.summaries import FORMAT_OF_SUMMARIES, WorkloadSummary


@cache
def factory_summaries() -> tuple[WorkloadSummary, ...]:
    """Return the summaries of the public workloads that the package was built with.

    They hold only posterior numbers of anonymous workloads: no runs, no names. Their sources are
    given in ``models/data/README.md``.

    Raises
    ------
    ValueError
        If the file has another format than this library.

    Examples
    --------
    >>> len(factory_summaries()) > 10
    True
    """
    text = (files("models") / "data" / "factory_prior.json").read_text(encoding="utf-8")
    document = json.loads(text)
    if document["format"] != FORMAT_OF_SUMMARIES:
        raise ValueError(f"The factory prior has format {document['format']!r}.")
    return tuple(WorkloadSummary.from_document(item) for item in document["workloads"])
