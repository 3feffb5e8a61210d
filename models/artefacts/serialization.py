"""Artefacts: a fitted portfolio as data alone, with a hash of every part."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

# numpy loads this when `unique` is first called; here, so that no request waits for it.
import numpy.ma
import orjson

from models.accelerator_memory.state import law_header
from models.answers.memory import Memory
from models.artefacts.parts import (
    HARDWARE,
    KEYS,
    MEMBER,
    RUNS,
    build_portfolio,
    check_controls,
    controls,
)
from models.convergence import convergence_arrays
from models.errors import ArtifactError
from models.features.encoder import Encoder
from models.features.hardware import describe_hardware
from models.portfolio import FittedPortfolio
from models.state.packing import pack, unpack
from models.tables import FloatArray

FORMAT_VERSION = 22
"""Raised whenever the meaning of an artefact changes; other versions are refused."""

ARRAYS, HEADER = "arrays.f64", "header.json"
"""Names of the parts with all arrays (little-endian) and with everything else."""

_NUMBER = np.dtype("<f8")
_MAX_HEADER_BYTES = 48 * 2**20
_MAX_ARRAY_NUMBER = 1e30
_MAX_MESSAGE_LENGTH = 300
_CONTROLS = "controls"
_HEADER_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    RecursionError,
)
"""Errors that reading a forged header may raise."""


def dumps(portfolio: FittedPortfolio) -> bytes:
    """Return the artefact of a fitted portfolio; equal fits give equal bytes.

    It holds a JSON header, one block of float64 numbers and the names of runs, but no pickled
    object.
    """
    arrays, members = _arrays(portfolio)
    same = _same_arrays(arrays)
    order = [name for name in sorted(arrays) if name not in same]
    header = {
        **_header(portfolio),
        "format_version": FORMAT_VERSION,
        "arrays": [[name, list(arrays[name].shape)] for name in order],
        "same_arrays": same,
        "members": members,
    }
    block = np.concatenate([arrays[name].ravel() for name in order])
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
    names = portfolio.memory.names
    return pack(
        {
            HEADER: text,
            ARRAYS: block.astype(_NUMBER, copy=False).tobytes(),
            KEYS: names.keys,
            RUNS: names.runs_text.encode(),
        }
    )


def _arrays(portfolio: FittedPortfolio) -> tuple[dict[str, FloatArray], dict[str, dict[str, Any]]]:
    """Return the arrays of a portfolio by name, and the other values of its members."""
    arrays: dict[str, FloatArray] = {
        **_memory_arrays(portfolio.memory),
        HARDWARE: describe_hardware(portfolio.encoder.hardware),
        "transfer.combinations": portfolio.transfer.combinations.astype(np.float64),
        "transfer.counts": portfolio.transfer.counts,
    }
    arrays |= convergence_arrays(portfolio.convergence)
    if portfolio.phases is not None:
        arrays["phases.coefficients"] = portfolio.phases.coefficients
    if portfolio.memory_law is not None:
        arrays["memory_law.draws"] = portfolio.memory_law.draws
    for column, effects in portfolio.transfer.effects.items():
        arrays[f"effects.{column}.mean"] = effects.mean
        arrays[f"effects.{column}.covariance"] = effects.covariance
    for name, regime in portfolio.regimes.items():
        arrays[f"regime.{name}"] = np.concatenate(
            [regime.weights, regime.residual_variances, regime.curve]
        )
    members = {}
    for name, member in portfolio.members.items():
        state = member.to_state()
        members[name] = dict(state.values)
        arrays |= {f"{MEMBER}/{name}/{key}": array for key, array in state.arrays.items()}
    arrays[_CONTROLS] = controls(portfolio.members, portfolio.memory)
    return arrays, members


def _header(portfolio: FittedPortfolio) -> dict[str, Any]:
    """Return what is neither an array nor part of a member."""
    return {
        "center": portfolio.center,
        "effects": {
            column: {"levels": list(effects.levels), "sds": list(effects.sds)}
            for column, effects in portfolio.transfer.effects.items()
        },
        "encoder": _encoder_header(portfolio.encoder),
        "jitter": None if portfolio.jitter is None else asdict(portfolio.jitter),
        "few_levels": [sorted(few) for few in portfolio.regime_map.few_levels],
        "kinds": portfolio.regime_map.kinds,
        "member_order": list(portfolio.members),
        "memory": {"known_columns": sorted(portfolio.memory.known_columns)},
        "memory_law": law_header(portfolio.memory_law),
        "noise_tails": None if portfolio.noise_tails is None else asdict(portfolio.noise_tails),
        "placement": None if portfolio.placement is None else asdict(portfolio.placement),
        "phases": [] if portfolio.phases is None else list(portfolio.phases.names),
        "report": _without_nan(asdict(portfolio.report)),
    }


def _same_arrays(arrays: Mapping[str, FloatArray]) -> dict[str, str]:
    """Return the name of the equal array for each repeated one: members share rows and laws."""
    first: dict[tuple[tuple[int, ...], bytes], str] = {}
    same = {}
    for name in sorted(arrays):
        original = first.setdefault((arrays[name].shape, arrays[name].tobytes()), name)
        if original != name:
            same[name] = original
    return same


def loads(data: bytes) -> FittedPortfolio:
    """Return the portfolio of an artefact.

    Raises
    ------
    ArtifactError
        If the bytes are not an artefact, were truncated or altered, have another format version,
        are inconsistent, or forecast differently here than where they were written.
    """
    parts = unpack(data)
    try:
        # An overflow on the way is found at the end, where the result is not finite.
        with np.errstate(all="ignore"):
            return _load(parts)
    except ArtifactError:
        raise
    except _HEADER_ERRORS as error:
        message = repr(error)[:_MAX_MESSAGE_LENGTH]
        raise ArtifactError(f"The artefact's parts do not fit together: {message}") from error


def _load(parts: dict[str, memoryview]) -> FittedPortfolio:
    if len(parts[HEADER]) > _MAX_HEADER_BYTES:
        raise ArtifactError("The artefact's header is longer than any fit's.")
    header = orjson.loads(parts[HEADER])
    _check_version(header["format_version"])
    arrays = _read_arrays(parts[ARRAYS], header["arrays"])
    arrays |= {name: arrays[first] for name, first in header["same_arrays"].items()}
    portfolio = build_portfolio(header, arrays, parts)
    check_controls(portfolio, arrays[_CONTROLS])
    return portfolio


def _check_version(version: object) -> None:
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"The artefact has format {version!r}, not {FORMAT_VERSION}; fit the workload again."
        )


def _read_arrays(part: memoryview, shapes: list[tuple[str, list[int]]]) -> dict[str, FloatArray]:
    """Return the arrays as read-only views of a part, with all numbers checked."""
    block: FloatArray = np.frombuffer(part, _NUMBER)
    # Both are NaN if any number is; Python's max of NaN and another number is its first argument.
    largest = max(float(block.max(initial=0.0)), -float(block.min(initial=0.0)))
    if not math.isfinite(largest):
        raise ArtifactError("The artefact holds a number that is not finite.")
    if largest > _MAX_ARRAY_NUMBER:
        raise ArtifactError("The artefact holds a number that no fit gives.")
    arrays, start = {}, 0
    for name, shape in shapes:
        end = start + _size(shape)
        if end > len(block):
            raise ArtifactError("The artefact declares more numbers than it has.")
        arrays[name] = block[start:end].reshape(shape)
        start = end
    if start != len(block):
        raise ArtifactError("The artefact has more numbers than it declares.")
    return arrays


def _size(shape: list[int]) -> int:
    """Return how many numbers a shape declares, however absurd."""
    # Python's integers do not overflow.
    size = 1
    for length in shape:
        if type(length) is not int or length < 0:
            raise ArtifactError("The artefact declares a length that is none.")
        size *= length
    return size


def _encoder_header(encoder: Encoder) -> dict[str, Any]:
    return {
        "numeric": [asdict(feature) for feature in encoder.numeric],
        "categories": [asdict(category) for category in encoder.categories],
        "hardware": sorted(encoder.hardware),
        "multi_node": encoder.multi_node,
        "companions": [asdict(companion) for companion in encoder.companions],
    }


def _memory_arrays(memory: Memory) -> dict[str, FloatArray]:
    return {
        "memory.X": memory.X,
        "memory.codes": memory.codes,
        "memory.repeated": np.flatnonzero(memory.is_repeated).astype(np.float64),
        "memory.ranges": memory.ranges[memory.is_repeated],
        "memory.half_widths": memory.half_widths[memory.is_repeated],
        "memory.held_out": memory.held_out,
        "memory.unfinished": np.flatnonzero(memory.unfinished).astype(np.float64),
        "memory.name_lengths": memory.names.lengths,
        "memory.name_counts": memory.names.counts,
    }


def _without_nan(value: Any) -> Any:
    """Return JSON with null in place of NaN, which stands for an error that was never measured."""
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
