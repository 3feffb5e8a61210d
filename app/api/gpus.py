"""Routes of GPU names and data sheets."""

from typing import Annotated

from fastapi import Path

from app.api.dependencies import Reader, ServicesDep
from app.api.problems import problem_responses
from app.api.requests.routers import ApiRouter
from app.api.schemas.gpus import GpuOut, GpusOut
from app.domain.errors import AmbiguousGpuError, NotFoundError, UnknownGpuError

router = ApiRouter("/v1/gpus", "gpus")


@router.get(
    "",
    summary="List GPUs",
    description="Canonical names with aliases and data sheets, ambiguous names with what they"
    " may mean, and names that came with runs and have no data sheet.",
    responses=problem_responses(),
)
def list_gpus(services: ServicesDep, caller: Reader) -> GpusOut:
    return GpusOut.of(services.gpus.directory(caller.project_id))


@router.get(
    "/{gpu:path}",
    summary="Show a GPU",
    description="By any spelling, such as `NVIDIA A100-SXM4-40GB`.",
    responses=problem_responses(NotFoundError, UnknownGpuError, AmbiguousGpuError),
)
def get_gpu(
    gpu: Annotated[str, Path(description="a name in any spelling", min_length=1, max_length=200)],
    services: ServicesDep,
    caller: Reader,
) -> GpuOut:
    return GpuOut.of(services.gpus.describe(caller.project_id, gpu))
