"""Newly drawn questions: what holds on known splits should also hold on these."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.accuracy.profiles import KNOWN_SHARE, MIN_LEVELS, Profile, read_profiles
from benchmarks.accuracy.traces import Task

_FIRST: Final = (3, 6, 10, 20)
"""Numbers of random configurations that few-shot tasks know."""

_OF_LEVEL: Final = (0, 1, 3)
"""Numbers of configurations that are known of the type of machine asked."""

_MAX_LEVELS: Final = 3
_AXES: Final = ("workers", "dataset_size", "batch_size")
_MACHINES: Final = ("gpu_type", "instance_type")


def draw_tasks(runs: Path, folder: str, seed: int) -> list[Task]:
    """Return tasks about the workloads of a CSV file of runs, different ones for each seed.

    For each workload of at least eight configurations: 70 % of them known; 3, 6, 10 and 20 known;
    the upper and the lower half of each numeric axis asked; and for up to three types of machine,
    all known except those of that type, of which 0, 1 or 3 are known.
    """
    generator = np.random.default_rng(seed)
    profiles = read_profiles(runs, folder)
    return [task for profile in profiles for task in _drawn_tasks(profile, generator)]


def _drawn_tasks(profile: Profile, generator: np.random.Generator) -> Iterator[Task]:
    n = len(profile.configurations)
    known = generator.permutation(n) < round(KNOWN_SHARE * n)
    yield profile.task("interpolation", "random", "random", known.tolist())
    for count in _FIRST:
        if n >= 2 * count:
            known = generator.permutation(n) < count
            yield profile.task("few-shot", f"first {count}", f"first-{count}", known.tolist())
    yield from _half_tasks(profile)
    for column in _MACHINES:
        yield from _machine_tasks(profile, column, generator)


def _half_tasks(profile: Profile) -> Iterator[Task]:
    for axis in _AXES:
        numbers = profile.numbers(axis)
        levels = sorted({value for value in numbers if value is not None})
        if len(levels) < MIN_LEVELS or None in numbers:
            continue
        values, middle = np.array(numbers, dtype=float), len(levels) // 2
        for name, known in (
            ("above", values < levels[middle]),
            ("below", values > levels[len(levels) - 1 - middle]),
        ):
            yield profile.task("extrapolation", f"{axis} {name}", f"{axis}-{name}", known.tolist())


def _machine_tasks(profile: Profile, column: str, generator: np.random.Generator) -> Iterator[Task]:
    types = np.array([rows[0].get(column) or "" for rows in profile.configurations])
    levels = sorted(set(types.tolist()) - {""})
    if len(levels) < 2 or "" in types:  # noqa: PLR2004 - nothing would be known of another one
        return
    for level in generator.permutation(levels)[:_MAX_LEVELS].tolist():
        of_level = generator.permutation(np.flatnonzero(types == level))
        for count in _OF_LEVEL:
            if len(of_level) > count:
                known = types != level
                known[of_level[:count]] = True
                axis, name = f"{column} from {count}", f"{column}-{level}-from-{count}"
                yield profile.task("extrapolation", axis, name, known.tolist())
