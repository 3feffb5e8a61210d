"""Which runs were measured on which configuration: texts that are split on access."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import Self

import numpy as np
import numpy.typing as npt

from models.state.checks import demand
from models.state.typed_json import MAX_TEXT
from models.tables import FloatArray, IntArray

_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class RunNames:
    """Hashes of configurations, and up to three runs of each.

    Splitting at load would make thousands of strings, of which a forecast names three. So hashes
    and names stay concatenated, with the positions where names end.

    Parameters
    ----------
    keys
        The hashes (16 bytes each), concatenated.
    runs_text
        The names of runs, concatenated.
    ends
        Where each name ends, shape (n_names,).
    starts
        Index of the first name of each configuration, shape (n_configurations + 1,).

    Examples
    --------
    >>> names = RunNames.of(["0" * 32, "1" * 32], [("a", "b"), ("run 7",)])
    >>> len(names), names.of_row(0), names.of_row(1), names.key_list()[1][:4]
    (2, ('a', 'b'), ('run 7',), '1111')
    """

    keys: bytes
    runs_text: str
    ends: IntArray
    starts: IntArray

    @classmethod
    def of(cls, keys: Iterable[str], groups: Iterable[tuple[str, ...]]) -> Self:
        """Join the hashes of configurations and the names of their runs."""
        runs = list(groups)
        names = list(chain.from_iterable(runs))
        return cls(
            bytes.fromhex("".join(keys)),
            "".join(names),
            np.cumsum(np.array([len(name) for name in names], dtype=np.int64)),
            np.cumsum(np.array([0, *map(len, runs)], dtype=np.int64)),
        )

    @classmethod
    def read(
        cls, keys: memoryview, runs: memoryview, lengths: FloatArray, counts: FloatArray
    ) -> Self:
        """Return the names of an artefact.

        Raises
        ------
        ValueError
            If texts, lengths and counts do not fit together, or a configuration occurs twice.
        """
        demand(len(keys) == _KEY_BYTES * len(counts), "configurations do not fit together")
        demand(_are_distinct(np.frombuffer(keys, np.uint64)), "a configuration is there twice")
        text = str(runs, "utf-8")
        ends, starts = np.cumsum(_as_integers(lengths)), np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(_as_integers(counts), out=starts[1:])
        demand((counts > 0).all() and starts[-1] == len(ends), "runs do not fit configurations")
        demand(len(ends) and ends[-1] == len(text), "names of runs do not fit their lengths")
        return cls(bytes(keys), text, ends, starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> FloatArray:
        """Length of each name."""
        return np.diff(self.ends, prepend=0).astype(np.float64)

    @property
    def counts(self) -> FloatArray:
        """Number of names of each configuration."""
        return np.diff(self.starts).astype(np.float64)

    def key_list(self) -> list[str]:
        """Return the hashes of the configurations."""
        starts = range(0, len(self.keys), _KEY_BYTES)
        return [self.keys[start : start + _KEY_BYTES].hex() for start in starts]

    def rows_with_one_of(self, run_ids: AbstractSet[str]) -> list[int]:
        """Return the configurations whose single run is one of these."""
        single = np.flatnonzero(np.diff(self.starts) == 1).tolist() if run_ids else []
        return [row for row in single if self.of_row(row)[0] in run_ids]

    def of_row(self, row: int) -> tuple[str, ...]:
        """Return the runs of a configuration."""
        first, last = int(self.starts[row]), int(self.starts[row + 1])
        ends = self.ends[first:last].tolist()
        begin = int(self.ends[first - 1]) if first else 0
        return tuple(
            self.runs_text[start:end] for start, end in zip([begin, *ends], ends, strict=False)
        )


def _as_integers(numbers: FloatArray) -> IntArray:
    integers = numbers.astype(np.int64)
    is_length = numbers.ndim == 1 and (integers == numbers).all()
    is_in_range = integers.min(initial=0) >= 0 and integers.max(initial=0) <= MAX_TEXT
    demand(is_length and is_in_range, "a name's length is none")
    return integers


def _are_distinct(words: npt.NDArray[np.uint64]) -> bool:
    # Both halves of a hash mixed into one number: only a forged artefact has equal ones.
    mixed = np.sort(words[::2] * np.uint64(0x9E3779B97F4A7C15) ^ words[1::2])
    return bool((mixed[1:] != mixed[:-1]).all())
