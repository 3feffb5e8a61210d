"""Names of GPUs: canonical names, aliases, ambiguous families and data sheets."""

import csv
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from app.domain.errors import AmbiguousGpuError, UnknownGpuError
from app.domain.gpus import GpuSpecification

_MAKERS: Final = re.compile(r"\b(nvidia|tesla|geforce|amd|instinct|intel|google|cloud)\b")
_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
_SHORT_MEMORY: Final = re.compile(r"(?<![a-z0-9])(\d{2,3})\s?g(?![a-z0-9.])")
_MEMORY: Final = re.compile(r"(?<![a-z0-9])(\d+)\s?gi?b\b")
_COUNTED: Final = re.compile(
    r"(?P<before>\d+)\s*[x*]\s*(?P<one>\S.*)|(?P<other>.*\S)\s*[x*]\s*(?P<after>\d+)"
)
_LIST_SEPARATOR: Final = "; "
_NEAREST_NAMES: Final = 5
_LONGEST_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class _Directory:
    """All known spellings, squeezed, with their meanings."""

    specifications: Mapping[str, GpuSpecification]
    canonical: Mapping[str, str]
    families: Mapping[str, str]
    variants: Mapping[str, tuple[str, ...]]


def _squeeze(name: str) -> str:
    return _SEPARATORS.sub("", name.casefold())


def _spellings(name: str) -> tuple[str, str]:
    """Return the squeezed name as given, and without the names of makers.

    The first takes precedence: `nvidia-tesla-a100` of Kubernetes is the 40 GB board, while
    `Tesla A100` may be any.
    """
    words = _words(name)
    return _squeeze(words), _squeeze(_MAKERS.sub(" ", words))


def _words(name: str) -> str:
    """Return a name in lower case with its memory in GB, since some write 80G."""
    return _SHORT_MEMORY.sub(r"\1gb", name.casefold().replace("_", " "))


def _rows(file: str) -> Iterator[dict[str, str]]:
    text = (files("app.pricing") / "data" / file).read_text(encoding="utf-8")
    return csv.DictReader(text.splitlines())


def _split_list(cell: str) -> tuple[str, ...]:
    return tuple(cell.split(_LIST_SEPARATOR)) if cell else ()


def _specification(row: Mapping[str, str]) -> GpuSpecification:
    tensor, power = row["tensor_fp16_bf16_tflops"], row["tdp_watts"]
    return GpuSpecification(
        gpu_type=row["gpu_type"],
        architecture=row["architecture"],
        year=int(row["year"]),
        fp32_tflops=float(row["fp32_tflops"]),
        tensor_tflops=float(tensor) if tensor else None,
        memory_gib=float(row["memory_gib"]),
        memory_bandwidth_gb_s=float(row["memory_bandwidth_gb_s"]),
        interconnect=row["interconnect"],
        tdp_watts=float(power) if power else None,
        source=row["source"],
        aliases=_split_list(row["aliases"]),
    )


@cache
def _directory() -> _Directory:
    specifications = {
        specification.gpu_type: specification
        for specification in map(_specification, _rows("gpu_specifications.csv"))
    }
    canonical = {
        _squeeze(spelling): name
        for name, specification in specifications.items()
        for spelling in (name, *specification.aliases)
    }
    rows = list(_rows("gpu_families.csv"))
    families = {
        _squeeze(spelling): row["name"]
        for row in rows
        for spelling in (row["name"], *_split_list(row["aliases"]))
    }
    variants = {row["name"]: _split_list(row["variants"]) for row in rows}
    return _Directory(MappingProxyType(specifications), canonical, families, variants)


def specifications() -> Mapping[str, GpuSpecification]:
    """Return the data sheets by canonical name."""
    return _directory().specifications


def families() -> Mapping[str, tuple[str, ...]]:
    """Return the ambiguous names, each with the GPUs that it may mean."""
    return _directory().variants


def specification_of(name: str) -> GpuSpecification | None:
    """Return the data sheet of a name in any unambiguous spelling, None if there is none.

    Examples
    --------
    >>> specification_of("Tesla T4").memory_gib
    16.0
    """
    return specifications().get(canonical_gpu_name(name))


def canonical_gpu_name(name: str) -> str:
    """Return the canonical name of a GPU or a family of GPUs, any other name unchanged.

    Examples
    --------
    >>> canonical_gpu_name("NVIDIA A100-SXM4-80GB"), canonical_gpu_name("Tesla V100")
    ('A100-80GB', 'V100')
    """
    directory, spellings = _directory(), _spellings(name)
    for names in (directory.canonical, directory.families):
        for spelling in spellings:
            if spelling in names:
                return names[spelling]
    return name


def canonical_gpu_names(names: Sequence[str | None]) -> list[str | None]:
    """Return stored names in today's canonical form: the catalogue may have grown since."""
    canonical = {name: canonical_gpu_name(name) for name in set(names) if name is not None}
    return [None if name is None else canonical[name] for name in names]


def gpu_key(name: str) -> str:
    """Return a key that is equal for all unambiguous spellings of a GPU's name.

    Examples
    --------
    >>> gpu_key("Tesla T4") == gpu_key("t4"), gpu_key("our own") == gpu_key("Our Own")
    (True, True)
    """
    return canonical_gpu_name(name).casefold()


def variants_of(name: str) -> tuple[str, ...]:
    """Return the GPUs that a name may mean: one, several for a family, none if unknown.

    Examples
    --------
    >>> variants_of("v100")
    ('V100-16GB', 'V100-16GB-PCIe', 'V100-32GB', 'V100-32GB-PCIe')
    """
    directory = _directory()
    canonical = canonical_gpu_name(name)
    if canonical in directory.specifications:
        return (canonical,)
    return directory.variants.get(canonical, ())


def may_be_same_gpu(first: str, second: str) -> bool:
    """Return whether two names may be of one board: a family is one of its boards.

    Of an unknown name only its beginning tells.

    Examples
    --------
    >>> may_be_same_gpu("V100", "V100-16GB"), may_be_same_gpu("H100", "H100-PCIe")
    (True, False)
    >>> may_be_same_gpu("our board", "our board-v2"), may_be_same_gpu("our board", "T4")
    (True, False)
    """
    boards = variants_of(first), variants_of(second)
    if all(boards):
        return not set(boards[0]).isdisjoint(boards[1])
    return f"{first}-".startswith(f"{second}-") or f"{second}-".startswith(f"{first}-")


def counted_gpu(name: str) -> tuple[int, str] | None:
    """Return the number and the GPU of a name that contains both, None for any other.

    Examples
    --------
    >>> counted_gpu("8xA100"), counted_gpu("Tesla V100 x 4"), counted_gpu("RTX4090")
    ((8, 'A100'), (4, 'V100'), None)
    """
    match = _COUNTED.fullmatch(name.strip().casefold())
    if match is None or variants_of(name):
        return None
    gpu = canonical_gpu_name(match["one"] or match["other"])
    return (int(match["before"] or match["after"]), gpu) if variants_of(gpu) else None


def boards_of_chip(name: str) -> tuple[tuple[str, ...], float] | None:
    """Return known boards with the chip of one without a data sheet, and the GiB in its name.

    Boards with the same chip differ in memory more than in speed. None if the memory is at most
    half of theirs: that of a slice of the chip.

    Examples
    --------
    >>> boards_of_chip("H100-SXM-64GB"), boards_of_chip("A100-20GB"), boards_of_chip("T4")
    ((('H100',), 64.0), None, None)
    """
    words = _words(name)
    match = _MEMORY.search(words)
    if match is None or variants_of(name):
        return None
    boards, memory = variants_of(_MEMORY.sub(" ", words)), float(match[1])
    is_whole = all(memory > specifications()[board].memory_gib / 2 for board in boards)
    return (boards, memory) if boards and is_whole else None


def nearest_gpu_names(name: str, further: Collection[str] = ()) -> list[str]:
    """Return the known names that are most similar to an unknown one, the nearest first."""
    known = {_squeeze(family): variants for family, variants in families().items()}
    known |= {_squeeze(known_name): (known_name,) for known_name in (*specifications(), *further)}
    spelling = _spellings(name[:_LONGEST_NAME])[1]
    matches = get_close_matches(spelling, known, n=_NEAREST_NAMES, cutoff=0.5)
    return list(dict.fromkeys(name for match in matches for name in known[match]))[:_NEAREST_NAMES]


def resolve_gpu(name: str, measured: Collection[str], boards: Collection[str] = ()) -> str:
    """Return the name under which a forecast treats a GPU.

    Parameters
    ----------
    name
        The name asked for, in any spelling.
    measured
        The names with which the workload was measured; these are always valid.
    boards
        The GPU types of the machine that is asked about, as far as it is known: an ambiguous name
        means the one of them that it may.

    Raises
    ------
    AmbiguousGpuError
        If the name may mean several variants.
    UnknownGpuError
        If the name is neither measured nor known; it suggests the nearest names.

    Examples
    --------
    >>> resolve_gpu("v100", measured=["V100"]), resolve_gpu("Tesla T4", measured=[])
    ('V100', 'T4')
    >>> resolve_gpu("V100", measured=["T4"], boards=["V100-32GB"])
    'V100-32GB'
    """
    if name in measured:
        return name
    spelling = _spellings(name)[1]
    matches = [known_name for known_name in measured if _spellings(known_name)[1] == spelling]
    if spelling and len(matches) == 1:
        return matches[0]
    variants = variants_of(name)
    meant = [variant for variant in variants if variant in boards] or variants
    if len(meant) == 1:
        return meant[0]
    if variants:
        raise AmbiguousGpuError(name, variants)
    raise UnknownGpuError(name, nearest_gpu_names(name, measured))
