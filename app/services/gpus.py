"""The use cases of GPU names, aliases and specifications."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain.errors import AmbiguousGpuError, UnknownGpuError
from app.domain.gpus import GpuSpecification
from app.domain.identifiers import ProjectId
from app.pricing.gpus import (
    boards_of_chip,
    families,
    nearest_gpu_names,
    specification_of,
    specifications,
    variants_of,
)
from app.services.context import ServiceContext


@dataclass(frozen=True, slots=True)
class GpuDirectory:
    """All known GPUs, and the names in a project's runs that have no data sheet.

    `stand_ins` names the boards whose data sheets describe such a name to forecasts: the variants
    of an ambiguous one ("V100"), or the boards with the same chip and another memory ("A100-60GB").
    """

    specified: Sequence[GpuSpecification]
    ambiguous: Mapping[str, Sequence[str]]
    unspecified: Sequence[str]
    stand_ins: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class UnspecifiedGpu:
    """A name that only runs have, and the boards whose data sheets describe it to forecasts."""

    name: str
    stand_ins: Sequence[str]


class GpuService:
    """Use cases of GPU names, aliases and specifications."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def directory(self, project_id: ProjectId) -> GpuDirectory:
        """Return all data sheets, and the names in the project's runs that have none."""
        unspecified = self._unspecified(project_id)
        stand_ins = {name: boards for name in unspecified if (boards := _stand_ins(name))}
        return GpuDirectory(list(specifications().values()), families(), unspecified, stand_ins)

    def describe(self, project_id: ProjectId, name: str) -> GpuSpecification | UnspecifiedGpu:
        """Return the data sheet of a GPU in any spelling, or what is known of a name in runs.

        Raises
        ------
        AmbiguousGpuError
            If the name stands for several variants.
        UnknownGpuError
            If neither a data sheet nor a run of the project has the name.
        """
        specification = specification_of(name)
        if specification is not None:
            return specification
        variants = variants_of(name)
        if variants:
            raise AmbiguousGpuError(name, variants)
        unspecified = self._unspecified(project_id)
        if name in unspecified:
            return UnspecifiedGpu(name, _stand_ins(name))
        raise UnknownGpuError(name, nearest_gpu_names(name, unspecified))

    def _unspecified(self, project_id: ProjectId) -> list[str]:
        with self._context.database.reading() as stores:
            measured = stores.runs.gpu_types(project_id)
        return [name for name in measured if specification_of(name) is None]


def _stand_ins(name: str) -> tuple[str, ...]:
    of_chip = boards_of_chip(name)
    return variants_of(name) if of_chip is None else of_chip[0]
