"""The runs of an upload as they will be stored, to be judged beforehand."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

import orjson

from app.domain.configurations import Configuration, Scenario, Work
from app.domain.identifiers import RunId, Slug
from app.domain.runs import Run, RunContent, RunStatus
from app.services.uploads.chunks import Chunk

Value = TypeVar("Value")


def provisional_runs(chunk: Chunk, content: RunContent, now: datetime) -> list[Run]:
    """Return a chunk's runs with what a forecast for them would know; they have no id yet."""
    return [
        Run(
            run_id=RunId(""),
            workload=Slug(slug or ""),
            status=RunStatus(content.status[index]),
            duration_seconds=content.duration_seconds[index],
            scenario=_scenario(content, index),
            created_at=now,
        )
        for index, slug in enumerate(chunk.texts["workload"])
    ]


def _scenario(content: RunContent, index: int) -> Scenario:
    parameters = _at(content.parameters, index)
    return Scenario(
        Configuration(
            gpu_type=_at(content.gpu_type, index),
            instance_type=_at(content.instance_type, index),
            nodes=_at(content.nodes, index),
            workers=content.workers[index],
        ),
        Work(
            _at(content.dataset_size, index),
            _at(content.batch_size, index),
            _at(content.epochs, index),
        ),
        {} if parameters is None else orjson.loads(parameters),
    )


def _at(column: Sequence[Value | None] | None, index: int) -> Value | None:
    return None if column is None else column[index]
