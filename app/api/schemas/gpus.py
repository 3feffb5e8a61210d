"""Responses about GPUs."""

from pydantic import Field

from app.api.schemas.base import ResponseModel
from app.domain.gpus import GpuSpecification
from app.services.gpus import GpuDirectory, UnspecifiedGpu


class GpuOut(ResponseModel):
    """A GPU's data sheet; only its name if the GPU is known from runs alone."""

    gpu_type: str
    specified: bool
    aliases: list[str]
    architecture: str | None = None
    year: int | None = None
    fp32_tflops: float | None = None
    tensor_tflops: float | None = None
    memory_gib: float | None = None
    memory_bandwidth_gb_s: float | None = None
    interconnect: str | None = None
    tdp_watts: float | None = None
    source: str | None = None
    stand_ins: list[str] = Field(
        default=[],
        description="for a GPU known only from runs: the GPUs whose data sheets forecasts use",
    )

    @classmethod
    def of(cls, gpu: GpuSpecification | UnspecifiedGpu) -> "GpuOut":
        """Return the schema of a data sheet, or of a name without one."""
        if isinstance(gpu, UnspecifiedGpu):
            stand_ins = list(gpu.stand_ins)
            return cls(gpu_type=gpu.name, specified=False, aliases=[], stand_ins=stand_ins)
        return cls(
            gpu_type=gpu.gpu_type,
            specified=True,
            aliases=list(gpu.aliases),
            architecture=gpu.architecture,
            year=gpu.year,
            fp32_tflops=gpu.fp32_tflops,
            tensor_tflops=gpu.tensor_tflops,
            memory_gib=gpu.memory_gib,
            memory_bandwidth_gb_s=gpu.memory_bandwidth_gb_s,
            interconnect=gpu.interconnect,
            tdp_watts=gpu.tdp_watts,
            source=gpu.source,
        )


class AmbiguousNameOut(ResponseModel):
    """A name that may mean any of several GPUs."""

    name: str
    variants: list[str]


class GpusOut(ResponseModel):
    """All known GPUs, ambiguous names, and names without a data sheet."""

    gpus: list[GpuOut]
    ambiguous: list[AmbiguousNameOut]
    unspecified: list[str]
    stand_ins: dict[str, list[str]] = Field(
        description="for unspecified names: the boards whose data sheets forecasts use for them"
    )

    @classmethod
    def of(cls, directory: GpuDirectory) -> "GpusOut":
        """Return the schema of the directory."""
        return cls(
            gpus=[GpuOut.of(gpu) for gpu in directory.specified],
            ambiguous=[
                AmbiguousNameOut(name=name, variants=list(variants))
                for name, variants in directory.ambiguous.items()
            ],
            unspecified=list(directory.unspecified),
            stand_ins={name: list(boards) for name, boards in directory.stand_ins.items()},
        )
