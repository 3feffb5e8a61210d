"""Data sheets of accelerators, and the prior on how durations scale with them."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from typing_extensions import override

from models.tables import FloatArray

SPECIFICATION_EXPONENTS: FloatArray = np.array([-0.25, -0.1, -0.5])
"""Prior exponents of the duration in (tensor or FP32 TFLOPS, FP32 TFLOPS, GB/s); a heuristic."""

_N_FIGURES = 4

_SHARED_SETS = 16
"""Sets of data sheets that are in memory once: each release, and each later addition, has one."""

UNKNOWN_SD = 0.5
"""Log standard deviation of a level about which nothing is known."""

UNKNOWN_GPU_SD = 1.0
"""The same for a GPU type: the spread of durations implied by the shipped data sheets."""


@dataclass(frozen=True, slots=True)
class HardwareDescription:
    """Peak figures of one accelerator.

    Parameters
    ----------
    fp32_tflops
        Peak rate of 32-bit floats in TFLOPS, positive.
    tensor_tflops
        Peak dense 16-bit rate of the tensor cores in TFLOPS, None without tensor cores.
    memory_gib
        Memory in GiB, positive; None where boards of the same name differ in memory.
    memory_bandwidth_gb_s
        Memory bandwidth in GB/s, positive.

    Raises
    ------
    ValueError
        If a figure is not a positive finite number.
    """

    fp32_tflops: float
    tensor_tflops: float | None
    memory_gib: float | None
    memory_bandwidth_gb_s: float

    def __post_init__(self) -> None:
        tensor = 1.0 if self.tensor_tflops is None else self.tensor_tflops
        memory = 1.0 if self.memory_gib is None else self.memory_gib
        rates, bandwidth = self.fp32_tflops, self.memory_bandwidth_gb_s
        if not all(map(_is_positive, (rates, tensor, memory, bandwidth))):
            raise ValueError("Every figure of a hardware description is positive and finite.")


def _is_positive(figure: float) -> bool:
    return 0 < figure < math.inf


def describe_hardware(hardware: Mapping[str, HardwareDescription]) -> FloatArray:
    """Return the figures of data sheets sorted by name, shape (n, 4), 0 for None.

    Examples
    --------
    >>> k80 = HardwareDescription(4.1, None, 12.0, 240.0)
    >>> describe_hardware({"K80": k80}).tolist()
    [[4.1, 0.0, 12.0, 240.0]]
    >>> DataSheets(("K80",), describe_hardware({"K80": k80}))["K80"] == k80
    True
    """
    figures = [
        [item.fp32_tflops, item.tensor_tflops, item.memory_gib, item.memory_bandwidth_gb_s]
        for _, item in sorted(hardware.items())
    ]
    rows = [[0.0 if figure is None else figure for figure in row] for row in figures]
    return np.array(rows).reshape(-1, _N_FIGURES)


class DataSheets(Mapping[str, HardwareDescription]):
    """Data sheets by name, each built on access: an artefact has dozens of them.

    Parameters
    ----------
    names, figures
        The names, and the figures from `describe_hardware` in the same order.

    Raises
    ------
    ValueError
        If names and figures differ in number, a name occurs twice, or a figure is not positive and
        finite.
    """

    def __init__(self, names: Sequence[str], figures: FloatArray) -> None:
        if figures.shape != (len(names), _N_FIGURES) or len(set(names)) < len(names):
            raise ValueError("data sheets do not fit together")
        is_needed = figures[:, [0, -1]] > 0
        if not (is_needed.all() and (figures >= 0).all() and np.isfinite(figures).all()):
            raise ValueError("a figure of a data sheet is not positive and finite")
        self._rows = dict(zip(names, figures.tolist(), strict=True))

    @override
    def __getitem__(self, name: str) -> HardwareDescription:
        fp32, tensor, memory, bandwidth = self._rows[name]
        return HardwareDescription(fp32, tensor or None, memory or None, bandwidth)

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    @override
    def __len__(self) -> int:
        return len(self._rows)


@lru_cache(maxsize=_SHARED_SETS)
def _shared(names: tuple[str, ...], figures: bytes, shape: tuple[int, ...]) -> DataSheets:
    return DataSheets(names, np.frombuffer(figures).reshape(shape))


def shared_data_sheets(names: tuple[str, ...], figures: FloatArray) -> DataSheets:
    """Return the data sheets with these names and figures; equal ones are one object.

    Thousands of regressors in memory, each with dozens of data sheets, mostly have the same.

    Raises
    ------
    ValueError
        As `DataSheets`.

    Examples
    --------
    >>> figures = describe_hardware({"K80": HardwareDescription(4.1, None, 12.0, 240.0)})
    >>> shared_data_sheets(("K80",), figures) is shared_data_sheets(("K80",), figures.copy())
    True
    """
    return _shared(names, figures.tobytes(), figures.shape)


def mean_description(variants: Sequence[HardwareDescription]) -> HardwareDescription:
    """Return the geometric mean of variants that share a name.

    It has tensor cores if every variant has them, and a memory if it is the same for all.

    Examples
    --------
    >>> small, large = (HardwareDescription(15.7, 125.0, gib, 900.0) for gib in (16.0, 32.0))
    >>> mean_description([small, large])
    HardwareDescription(fp32_tflops=15.7, tensor_tflops=125.0, memory_gib=None, \
memory_bandwidth_gb_s=900.0)
    """
    tensor = [item.tensor_tflops for item in variants if item.tensor_tflops is not None]
    memories = {item.memory_gib for item in variants}
    return HardwareDescription(
        _geometric_mean([item.fp32_tflops for item in variants]),
        _geometric_mean(tensor) if len(tensor) == len(variants) else None,
        memories.pop() if len(memories) == 1 else None,
        _geometric_mean([item.memory_bandwidth_gb_s for item in variants]),
    )


def _geometric_mean(values: Sequence[float]) -> float:
    return round(float(np.exp(np.mean(np.log(values)))), 6)


def specification_vector(hardware: HardwareDescription) -> FloatArray:
    """Return the log specifications that durations are regressed on, shape (3,).

    Examples
    --------
    >>> v100 = HardwareDescription(15.7, 125.0, 16.0, 900.0)
    >>> specification_vector(v100).round(2).tolist()
    [4.83, 2.75, 6.8]
    """
    tensor = hardware.tensor_tflops or hardware.fp32_tflops
    return np.log([tensor, hardware.fp32_tflops, hardware.memory_bandwidth_gb_s])


def level_offsets(
    levels: tuple[str | None, ...], hardware: Mapping[str, HardwareDescription]
) -> tuple[float, ...]:
    """Return the prior log effect of each GPU type, centred on those with a data sheet.

    A type without a data sheet is expected at their average: 0.

    Examples
    --------
    >>> t4, l4 = HardwareDescription(8.1, 65, 16, 320), HardwareDescription(30.3, 121, 24, 300)
    >>> [round(offset, 3) for offset in level_offsets(("T4", "L4", "mine"), {"T4": t4, "L4": l4})]
    [0.128, -0.128, 0.0]
    """
    effects: dict[str | None, float] = {
        level: float(SPECIFICATION_EXPONENTS @ specification_vector(hardware[level]))
        for level in levels
        if level is not None and level in hardware
    }
    center = sum(effects.values()) / max(1, len(effects))
    return tuple(effects.get(level, center) - center for level in levels)
