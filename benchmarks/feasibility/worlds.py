"""Simulated trainings with true memory peaks that do not have the form of the memory law."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from models import BoolArray, FeatureTable, FloatArray, HardwareDescription, MemoryRuns

GIB = 2.0**30
MEMORY_GIB = {"T4": 16.0, "L4": 24.0, "A100-40GB": 40.0, "A100-80GB": 80.0}
USABLE = 0.94
NOISE_SD = 0.03
FITTING_SHARE = (0.4, 0.8)
"""Range, over worlds, of the share of configurations that fit."""

Numbers = Mapping[str, FloatArray]


@dataclass(frozen=True, slots=True)
class Runs:
    """Configurations with their peak memory per GPU, and whether it was too much."""

    features: FeatureTable
    is_out: BoolArray
    peak_bytes: FloatArray

    def evidence(self, *, measured: bool) -> MemoryRuns:
        """Return what a project knows of them: peaks of those that fitted, or only outcomes."""
        peaks = np.where(self.is_out | (not measured), np.nan, self.peak_bytes)
        return MemoryRuns(self.features, self.is_out, peaks)


def hardware() -> dict[str, HardwareDescription]:
    """Return data sheets, of which only the memory matters."""
    return {
        name: HardwareDescription(100.0, 1000.0, size, 900.0) for name, size in MEMORY_GIB.items()
    }


class World:
    """One training script with its own sizes, on several GPU types."""

    def __init__(self, kind: str, seed: int) -> None:
        self._peak, self._choices = KINDS[kind]
        rng = np.random.default_rng(seed)
        self._gpus = sorted(rng.choice(list(MEMORY_GIB), int(rng.integers(1, 4)), replace=False))
        self._weights = rng.uniform(0.5, 2.0, 3)
        # The memory is scaled so that this share of the configurations fits.
        drawn, names = self._draw(2000, rng)
        ratio = self._bytes(drawn) / self._limits(names)
        self._scale = 1 / float(np.quantile(ratio, rng.uniform(*FITTING_SHARE)))

    def runs(self, n: int, seed: int) -> Runs:
        """Return `n` random configurations, such as a project might try or ask about."""
        rng = np.random.default_rng(seed)
        numbers, names = self._draw(n, rng)
        peaks = self._scale * self._bytes(numbers) * np.exp(rng.normal(0, NOISE_SD, n))
        bits = numbers["bits"]
        numeric = {name: values for name, values in numbers.items() if name != "bits"}
        numeric["batch_size"] = numeric.pop("local_batch") * numeric["workers"]
        categorical = {
            "gpu_type": list(names),
            "param.precision": ["bf16" if width == 16 else "fp32" for width in bits],  # noqa: PLR2004
        }
        return Runs(FeatureTable(numeric, categorical, n), peaks > self._limits(names), peaks)

    def _draw(self, n: int, rng: np.random.Generator) -> tuple[dict[str, FloatArray], list[str]]:
        numbers = {
            "local_batch": np.exp2(rng.integers(0, 9, n).astype(np.float64)),
            "workers": np.exp2(rng.integers(0, 5, n).astype(np.float64)),
            "bits": rng.choice([16.0, 32.0], n),
        }
        chosen = {f"param.{name}": rng.choice(sizes, n) for name, sizes in self._choices.items()}
        return {**numbers, **chosen}, rng.choice(self._gpus, n).tolist()

    def _bytes(self, numbers: Numbers) -> FloatArray:
        static, activations, fixed = self._peak(numbers)
        weights = self._weights / np.array([np.median(static), np.median(activations), fixed])
        return np.asarray(
            weights[0] * static + weights[1] * activations + 0.1 * weights[2] * fixed,
            dtype=np.float64,
        )

    @staticmethod
    def _limits(names: list[str]) -> FloatArray:
        return np.array([USABLE * GIB * MEMORY_GIB[name] for name in names])


def _convolutional(numbers: Numbers) -> tuple[FloatArray, FloatArray, float]:
    """Return three copies of the weights in 32 bits, and feature maps for every pixel."""
    depth, pixels = numbers["param.depth"], numbers["param.resolution"] ** 2
    static = depth * (12 + numbers["bits"] / 8)
    return static, numbers["local_batch"] * depth**0.8 * pixels * numbers["bits"], 1.0


def _transformer(numbers: Numbers) -> tuple[FloatArray, FloatArray, float]:
    """Return Korthikanti et al. (2023), Reducing activation recomputation, equation 2."""
    length, width = numbers["param.sequence_length"], numbers["param.hidden_size"]
    static = 12 * numbers["param.layers"] * width**2 * (12 + numbers["bits"] / 8)
    per_token = width * (34 + 5 * length / 64)
    activations = numbers["param.layers"] * length * per_token * numbers["bits"] / 16
    return static, numbers["local_batch"] * activations, 1.0


def _sharded(numbers: Numbers) -> tuple[FloatArray, FloatArray, float]:
    """Return a transformer with weights and optimiser states split over the workers (ZeRO-3)."""
    static, activations, fixed = _transformer(numbers)
    return static / numbers["workers"], activations, fixed


_WITHOUT_EFFECT = {"learning_rate": [1e-4, 3e-4, 1e-3, 3e-3], "warmup_epochs": [1.0, 5.0, 10.0]}

_CONVOLUTIONAL_SIZES = {
    "depth": [18.0, 34.0, 50.0, 101.0],
    "resolution": [128.0, 224.0, 320.0, 448.0],
    **_WITHOUT_EFFECT,
}

_TRANSFORMER_SIZES = {
    "layers": [6.0, 12.0, 24.0, 48.0],
    "hidden_size": [512.0, 1024.0, 2048.0, 4096.0],
    "sequence_length": [256.0, 512.0, 1024.0, 2048.0, 4096.0],
    **_WITHOUT_EFFECT,
}

Peak = Callable[[Numbers], tuple[FloatArray, FloatArray, float]]
KINDS: dict[str, tuple[Peak, dict[str, list[float]]]] = {
    "convolutional": (_convolutional, _CONVOLUTIONAL_SIZES),
    "transformer": (_transformer, _TRANSFORMER_SIZES),
    "sharded": (_sharded, _TRANSFORMER_SIZES),
}
