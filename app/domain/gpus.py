"""GPU types: canonical names, aliases and vendor specifications."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GpuSpecification:
    """An accelerator's data sheet.

    `tensor_tflops` is dense fp16/bf16, None without tensor cores; `tdp_watts` is None if the maker
    does not publish it.
    """

    gpu_type: str
    architecture: str
    year: int
    fp32_tflops: float
    tensor_tflops: float | None
    memory_gib: float
    memory_bandwidth_gb_s: float
    interconnect: str
    tdp_watts: float | None
    source: str
    aliases: tuple[str, ...] = ()
