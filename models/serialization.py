"""Artefacts: a fitted portfolio as data alone, with a hash of every part."""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from models.aliases import alias_values
from models.arms import plain_name
from models.candidates import CANDIDATES, Setting
from models.convergence import build_convergence, convergence_arrays
from models.distribution import LEVELS
from models.encoding import Encoded, Encoder
from models.errors import ArtifactError
from models.features import CategoryFeature, NumericFeature
from models.hardware import HardwareDescription
from models.level_effects import LevelEffects
from models.memory import Memory
from models.mixture import RegimeModel
from models.packing import MAX_PART_BYTES, pack, unpack
from models.portfolio import FittedPortfolio
from models.regimes import RegimeMap
from models.regressor import PortfolioRegressor, State, StateValue
from models.report_state import build_law, build_report, law_header
from models.tables import FloatArray
from models.transfer import LevelTransfer

FORMAT_VERSION = 4
"""Raised whenever the meaning of an artefact changes; other versions are refused."""

_FLOAT_BYTES = 8
_MISFITS = (
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    AssertionError,
    ArithmeticError,
    RecursionError,
)
"""What reading a header raises that somebody made up."""


def dumps(portfolio: FittedPortfolio) -> bytes:
    """Return the artefact of a fitted portfolio; equal fits give equal bytes.

    It holds a JSON header, one block of float64 numbers and LightGBM's text, no pickled object.
    """
    arrays: dict[str, FloatArray] = {
        "memory.X": portfolio.memory.X,
        "memory.codes": portfolio.memory.codes,
        "transfer.combinations": portfolio.transfer.combinations.astype(np.float64),
        "transfer.counts": portfolio.transfer.counts,
    }
    arrays |= convergence_arrays(portfolio.convergence)
    if portfolio.memory_law is not None:
        arrays["memory_law.draws"] = portfolio.memory_law.draws
    for column, effects in portfolio.transfer.effects.items():
        arrays[f"effects.{column}.mean"] = effects.mean
        arrays[f"effects.{column}.covariance"] = effects.covariance
    for name, regime in portfolio.regimes.items():
        arrays[f"regime.{name}"] = np.concatenate(
            [regime.weights, regime.residual_variances, regime.curve]
        )
    members: dict[str, dict[str, StateValue]] = {}
    texts: dict[str, bytes] = {}
    for name, member in portfolio.members.items():
        state = member.to_state()
        members[name] = dict(state.values)
        arrays |= {f"member.{name}.{key}": array for key, array in state.arrays.items()}
        texts |= {f"{name}.{key}.txt": text.encode() for key, text in state.texts.items()}
    names = sorted(arrays)
    header = {
        "format_version": FORMAT_VERSION,
        "arrays": [[name, list(arrays[name].shape)] for name in names],
        "center": portfolio.center,
        "effects": {
            column: {"levels": list(effects.levels), "sds": list(effects.sds)}
            for column, effects in portfolio.transfer.effects.items()
        },
        "encoder": _encoder_header(portfolio.encoder),
        "few_levels": [sorted(few) for few in portfolio.regime_map.few_levels],
        "kinds": portfolio.regime_map.kinds,
        "members": members,
        "member_order": list(portfolio.members),
        "memory": _memory_header(portfolio.memory),
        "memory_law": law_header(portfolio.memory_law),
        "report": asdict(portfolio.report),
    }
    block = np.concatenate([arrays[name].ravel() for name in names])
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, block, allow_pickle=False)
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    return pack({"header.json": text, "arrays.npy": buffer.getvalue(), **texts})


def loads(data: bytes) -> FittedPortfolio:
    """Return the portfolio of an artefact.

    Raises
    ------
    ArtifactError
        If the bytes are not an artefact, were truncated or altered, have another format version,
        or do not fit together.
    """
    parts = unpack(data)
    try:
        header = json.loads(parts["header.json"])
        _check_version(header["format_version"])
        arrays = _read_arrays(parts["arrays.npy"], header["arrays"])
        return _build(header, arrays, parts)
    except ArtifactError:
        raise
    except _MISFITS as error:
        raise ArtifactError(f"The artefact's parts do not fit together: {error!r}") from error


def _check_version(version: object) -> None:
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"The artefact has format {version!r}, not {FORMAT_VERSION}; fit the workload again."
        )


def _read_arrays(part: bytes, shapes: list[tuple[str, list[int]]]) -> dict[str, FloatArray]:
    sizes = []
    for _, shape in shapes:
        if any(not isinstance(length, int) or length < 0 for length in shape):
            raise ArtifactError("The artefact declares a negative length.")
        # Python's integers do not overflow: an absurd shape is seen before anything is allocated.
        size = 1
        for length in shape:
            size *= length
        sizes.append(size)
    if sum(sizes) * _FLOAT_BYTES > min(len(part), MAX_PART_BYTES):
        raise ArtifactError("The artefact declares more numbers than it has.")
    stream = io.BytesIO(part)
    block = np.lib.format.read_array(stream, allow_pickle=False, max_header_size=1000)
    if block.dtype != np.float64 or block.shape != (sum(sizes),):
        raise ArtifactError("The artefact's numbers are not of the declared count.")
    if not np.isfinite(block).all():
        raise ArtifactError("The artefact holds a number that is not finite.")
    ends = np.cumsum([0, *sizes])
    return {
        name: block[ends[index] : ends[index + 1]].reshape(shape).copy()
        for index, (name, shape) in enumerate(shapes)
    }


def _build(
    header: Mapping[str, Any], arrays: Mapping[str, FloatArray], parts: Mapping[str, bytes]
) -> FittedPortfolio:
    encoder = _build_encoder(header["encoder"])
    memory = _build_memory(header["memory"], arrays)
    members = {
        name: _build_member(name, encoder, header["members"][name], arrays, parts)
        for name in header["member_order"]
    }
    regimes = {
        name: _build_regime(arrays[f"regime.{name}"], len(members)) for name in header["kinds"]
    }
    few_levels = tuple(frozenset(few) for few in header["few_levels"])
    if len(few_levels) != len(encoder.categories):
        raise ArtifactError("The artefact's categories do not fit together.")
    return FittedPortfolio(
        encoder,
        _build_transfer(encoder, header["effects"], memory, arrays),
        RegimeMap(dict(header["kinds"]), few_levels),
        members,
        regimes,
        float(header["center"]),
        memory,
        build_report(header["report"]),
        build_law(header["memory_law"], arrays),
        build_convergence(arrays),
    )


def _build_member(
    name: str,
    encoder: Encoder,
    values: Mapping[str, Any],
    arrays: Mapping[str, FloatArray],
    parts: Mapping[str, bytes],
) -> PortfolioRegressor:
    if plain_name(name) not in CANDIDATES:
        raise ArtifactError(f"The artefact has a regressor {name!r} that is not known here.")
    prefix = f"member.{name}."
    own = {k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)}
    texts = {
        key.removeprefix(f"{name}.").removesuffix(".txt"): part.decode()
        for key, part in parts.items()
        if key.startswith(f"{name}.")
    }
    member = CANDIDATES[plain_name(name)](Setting(encoder.layout, 0.02, 0, 0))
    member.load_state(State(values, own, texts))
    return member


def _build_effects(
    column: str, header: Mapping[str, Any], arrays: Mapping[str, FloatArray]
) -> LevelEffects:
    mean, covariance = arrays[f"effects.{column}.mean"], arrays[f"effects.{column}.covariance"]
    own, deviation, slope = (float(sd) for sd in header["sds"])
    levels = tuple(str(level) for level in header["levels"])
    if len(mean) != len(levels) + 3 or covariance.shape != (len(mean),) * 2:
        raise ArtifactError("The artefact's effects do not fit their levels.")
    return LevelEffects(column, levels, mean, covariance, (own, deviation, slope))


def _build_transfer(
    encoder: Encoder,
    header: Mapping[str, Any],
    memory: Memory,
    arrays: Mapping[str, FloatArray],
) -> LevelTransfer:
    effects = {column: _build_effects(column, item, arrays) for column, item in header.items()}
    return LevelTransfer(
        encoder,
        arrays["transfer.combinations"].astype(np.int64),
        arrays["transfer.counts"],
        effects,
        alias_values(encoder, memory.X, memory.codes.astype(np.int64)),
    )


def _build_regime(array: FloatArray, n_members: int) -> RegimeModel:
    if array.shape != (2 * n_members + len(LEVELS),):
        raise ArtifactError("The artefact's weights do not fit its members.")
    return RegimeModel(array[:n_members], array[n_members:-5], array[-5:])


def _encoder_header(encoder: Encoder) -> dict[str, Any]:
    return {
        "numeric": [asdict(feature) for feature in encoder.numeric],
        "categories": [asdict(category) for category in encoder.categories],
        "hardware": {name: asdict(item) for name, item in sorted(encoder.hardware.items())},
        "multi_node": encoder.multi_node,
    }


def _build_encoder(header: Mapping[str, Any]) -> Encoder:
    return Encoder(
        tuple(NumericFeature(**feature) for feature in header["numeric"]),
        tuple(
            CategoryFeature(
                item["column"], tuple(item["levels"]), tuple(item["counts"]), item["used"]
            )
            for item in header["categories"]
        ),
        {name: HardwareDescription(**item) for name, item in header["hardware"].items()},
        multi_node=header["multi_node"],
    )


def _memory_header(memory: Memory) -> dict[str, Any]:
    return {
        "keys": list(memory.keys),
        "run_ids": [list(names) for names in memory.run_ids],
        "held_out": dict(memory.held_out),
        "known_columns": sorted(memory.known_columns),
        "unfinished": sorted(memory.unfinished),
    }


def _build_memory(header: Mapping[str, Any], arrays: Mapping[str, FloatArray]) -> Memory:
    X, codes = arrays["memory.X"], arrays["memory.codes"]
    nothing = np.zeros((len(X), 0))
    encoded = Encoded(X, nothing, nothing, nothing > 0, nothing, codes.astype(np.int64))
    keys, run_ids = tuple(header["keys"]), tuple(tuple(names) for names in header["run_ids"])
    if not len(X) == len(codes) == len(keys) == len(run_ids):
        raise ArtifactError("The artefact's configurations do not fit together.")
    known, unfinished = frozenset(header["known_columns"]), frozenset(header["unfinished"])
    return Memory.of(encoded, keys, run_ids, dict(header["held_out"]), known, unfinished)
