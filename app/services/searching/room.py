"""Whether workers fit on the number of nodes that a search names."""

from collections.abc import Mapping, Sequence
from math import ceil, inf
from typing import Final, NamedTuple

from app.domain.configurations import Configuration
from app.pricing.resolution import PriceBook
from app.services.tables.implied_gpus import Hardware

TOO_FEW_GPUS: Final = "too_few_gpus"
TOO_FEW_WORKERS: Final = "too_few_workers"


class Misplaced(NamedTuple):
    """Why workers do not fit on their nodes, and the nearest number of nodes that suffices."""

    reason: str
    nodes: int


def misplaced(
    configurations: Sequence[Configuration],
    measured: Mapping[Hardware, float | None],
    book: PriceBook,
) -> dict[int, Misplaced]:
    """Return the configurations that do not fit their nodes, by row.

    These have more workers per node than a node has GPUs and than any run had on one, or more
    nodes than workers.
    """
    rooms: dict[Hardware, float] = {}
    for pair in {
        (configuration.gpu_type, configuration.instance_type) for configuration in configurations
    }:
        gpus = None if pair[1] is None else book.gpus_of(Configuration(*pair))
        rooms[pair] = max(gpus, measured.get(pair) or 0.0) if gpus else inf
    by_row: dict[int, Misplaced] = {}
    for row, configuration in enumerate(configurations):
        workers, nodes, room = (
            configuration.workers,
            configuration.nodes,
            rooms[configuration.gpu_type, configuration.instance_type],
        )
        if nodes is None:
            continue
        if nodes > workers:
            by_row[row] = Misplaced(TOO_FEW_WORKERS, workers)
        elif workers > nodes * room:
            by_row[row] = Misplaced(TOO_FEW_GPUS, ceil(workers / room))
    return by_row
