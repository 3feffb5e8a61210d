"""The use cases of GPU names, aliases and specifications."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.domain.errors import AmbiguousGpuError, UnknownGpuError
from app.domain.gpus import GpuSpecification
from app.domain.identifiers import ProjectId
from app.pricing.gpus import (
    families,
    nearest_gpu_names,
    specification_of,
    specifications,
    variants_of,
)
from app.services.context import ServiceContext


@dataclass(frozen=True, slots=True)
class GpuDirectory:
    """All known GPUs, and the names in a project's runs that have no data sheet."""

    specified: Sequence[GpuSpecification]
    ambiguous: Mapping[str, Sequence[str]]
    unspecified: Sequence[str]


class GpuService:
    """Use cases of GPU names, aliases and specifications."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def directory(self, project_id: ProjectId) -> GpuDirectory:
        """Return all data sheets and the names that the project's runs brought without one."""
        unspecified = self._unspecified(project_id)
        return GpuDirectory(list(specifications().values()), families(), unspecified)

    def describe(self, project_id: ProjectId, name: str) -> GpuSpecification | str:
        """Return the data sheet of a GPU in any spelling, or the name that only runs have.

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
            return name
        raise UnknownGpuError(name, nearest_gpu_names(name, unspecified))

    def _unspecified(self, project_id: ProjectId) -> list[str]:
        with self._context.database.reading() as stores:
            measured = stores.forecasts.measured_gpu_types(project_id)
        return [name for name in measured if specification_of(name) is None]
